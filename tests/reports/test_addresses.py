"""Reports at addresses of fsspec: whatever reads a report reads them there, `-o` and baselines are written there, nothing else is."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from commands import attn

import attncli
from attncli.io.remote_files import read_remote_file, write_remote_file

fsspec = pytest.importorskip("fsspec")

SMALL = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2", "--seeds", "2")


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder at an address, with the reports of two runs in it."""
    folder = f"memory://{uuid.uuid4().hex}" if request.param == "memory" else f"file://{tmp_path}/x"
    for name, scale in (("step-1", "1"), ("step-2", "0.5")):
        path = str(tmp_path / f"{name}.json")
        run = ("rank-collapse", *SMALL, "--variants", "SAN", "--init-scale", scale)
        assert attn(*run, "-q", "-o", path).code == 0
        write_remote_file(f"{folder}/{name}.json", Path(path).read_bytes())
    return folder


def document(address: str) -> Any:
    found = read_remote_file(address)
    assert found is not None, f"nothing lies at {address}"
    return json.loads(found)


def test_every_command_that_reads_reports_reads_addresses(place: str, tmp_path: Path) -> None:
    old, new = f"{place}/step-1.json", f"{place}/step-2.json"
    assert attn("check", old, "--fail-if", "log10_residual > 1").code == 0
    gate = ("--baseline", old, "--fail-on", "log10_residual:0")
    assert attn("check", new, *gate).code == 1
    assert attn("check", old, *gate).code == 0
    assert "numbers changed" in attn("compare", old, new).out
    page = tmp_path / "page.html"
    assert attn("check", old, "-q", "-o", str(page)).code == 0
    assert "<html" in page.read_text()
    swept = [attn("sweep", "--glob", f"{place}/step-*.json"), attn("sweep", "--model", old, "--model", new)]  # fmt: skip
    assert [(each.code, "(2 of 2 items)" in each.out) for each in swept] == [(0, True)] * 2
    missing = attn("check", f"{place}/none.json")
    assert (missing.code, f"there is no file {place}/none.json" in missing.err) == (3, True)
    absent = attn("check", new, "--baseline", f"{place}/none.json", "--fail-on", "order:1")
    assert absent.code == 5


def test_reports_are_written_to_addresses(place: str) -> None:
    written = f"{place}/below/again.json"
    outcome = attn("check", f"{place}/step-1.json", "-o", written)
    assert (outcome.code, outcome.err.endswith(f"→ {written}\n")) == (0, True)
    assert document(written)["rows"] == document(f"{place}/step-1.json")["rows"]
    made = f"{place}/made.jsonl"
    assert attn("rank-collapse", *SMALL, "-q", "-o", made).code == 0
    assert b"log10_residual" in (read_remote_file(made) or b"")
    assert attn("check", written, "-o", f"{place}/unnamed").code == 2, "in which format?"


def test_baselines_lie_at_addresses(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    base, kept = f"{place}/baselines/moved.json", f"{place}/kept"
    Path("attn.toml").write_text(
        f'[checks.moved]\nreport = "{place}/step-2.json"\nbaseline = "{base}"\nfail-on = ["log10_residual:0"]\n'
    )
    line = ("ci", "--config", "attn.toml")
    assert attn(*line).code == 5
    assert (attn(*line, "--accept").code, attn(*line).code) == (0, 0)
    assert document(base)["rows"] == document(f"{place}/step-2.json")["rows"]
    write_remote_file(base, read_remote_file(f"{place}/step-1.json") or b"")
    assert attn(*line, "--keep", kept).code == 1
    assert document(f"{kept}/moved.json")["rows"] == document(f"{place}/step-2.json")["rows"]
    before = document(base)
    assert attn(*line, "--keep", f"{place}/baselines").code == 1
    assert document(base) == before, "a baseline is written by --accept alone"
    assert read_remote_file(f"{place}/baselines/moved.new.json") is not None
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(":")]


def test_python_reads_addresses(place: str) -> None:
    old, new = attncli.read(f"{place}/step-1.json"), f"{place}/step-2.json"
    assert not old.check(baseline=new, fail_on="log10_residual:0").passed
    assert attncli.compare(old, new).rows


@pytest.mark.parametrize(
    "words",
    [
        ("rank-collapse", *SMALL, "--plot", "memory://x/curves.png"),
        ("generate", "network", "--layers", "1", "-o", "memory://x/net.safetensors"),
        ("list", "metrics", "-o", "memory://x/metrics.csv"),
    ],
)
def test_what_is_no_report_is_written_to_files_alone(words: tuple[str, ...]) -> None:
    if "--plot" in words:
        pytest.importorskip("matplotlib")
    outcome = attn(*words)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "only reports are written to addresses" in outcome.err


def test_addresses_that_nothing_speaks_to_are_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = attn("rank-collapse", "--layers", "400", "-o", "nosuch://bucket/x.json")
    assert (outcome.code, "nosuch://bucket/x.json cannot be reached" in outcome.err) == (2, True)

    def refuse(*_: Any) -> None:
        raise OSError("the bucket is gone")

    monkeypatch.setattr(fsspec.filesystem("memory"), "pipe_file", refuse)
    outcome = attn("rank-collapse", *SMALL, "-o", "memory://x/x.json")
    assert (outcome.code, "cannot be written: the bucket is gone" in outcome.err) == (2, True)
