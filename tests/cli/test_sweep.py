"""`attn sweep`: resumes, survives kill -9, tells failures, flags duplicates, and never takes old numbers for new ones."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import commands
import pytest
from commands import ATTN, PLAIN, attn, files_in

from attncli.commands.utilities.sweep.swept_models import (
    list_swept_models,
    parse_training_steps,
    read_report_if_complete,
    report_file_name,
)
from attncli.errors import InputError, UsageError
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.engines import local

SIZES = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three networks of a training run, the current folder beside them."""
    monkeypatch.chdir(tmp_path)
    for step in (100, 900, 1000):
        network(tmp_path, step)
    return tmp_path


def network(folder: Path, step: int) -> None:
    path = str(folder / f"net-{step}.safetensors")
    scale = ("--init-scale", str(1 + step / 1000))
    assert attn("generate", "network", *SIZES, *scale, "-o", path).code == 0


SWEEP = ("sweep", "rank-collapse", "--glob", "net-*", "--variants", "SAN", "--into", "out")


@pytest.mark.slow
@pytest.mark.real_runs
def test_a_table_with_a_trend_and_one_report_per_item(runs: Path) -> None:
    outcome = attn(*SWEEP, "--plot")
    assert outcome.code == 0
    assert outcome.out.startswith("SAN: ")
    table = outcome.out.split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in table[2:]] == ["100", "900", "1000"]
    assert "● SAN" in outcome.out
    assert len(files_in(runs / "out")) == 3
    saved = [read_report_if_complete(str(path)) for path in (runs / "out").iterdir()]
    values = sorted(row.value or 0 for report in saved if report for row in report.rows if row.metric == "log10_residual" and row.layer == 2)  # fmt: skip
    swept = json.loads(attn(*SWEEP, "--format", "json").out)
    assert sorted(row["value"] for row in swept["rows"]) == values


@pytest.mark.slow
def test_a_finished_item_is_never_run_again(runs: Path) -> None:
    before = attn(*SWEEP).out
    network(runs, 2000)
    with mock.patch.object(
        local.LocalWorker,
        "send_job_to_worker",
        autospec=True,
        side_effect=local.LocalWorker.send_job_to_worker,
    ) as take:
        after = attn(*SWEEP).out
    (call,) = take.call_args_list
    assert "net-2000.safetensors" in call.args[1].words
    assert before.split("\n\n")[1].splitlines()[2] in after.splitlines()


@pytest.mark.slow
def test_changed_numbers_are_measured_again(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other weights under the same name, another option, another setting of the environment."""
    attn(*SWEEP)
    network(runs, 3000)
    os.replace("net-3000.safetensors", "net-900.safetensors")
    attn(*SWEEP)
    assert len(files_in(runs / "out")) == 4
    attn(*SWEEP, "--metric", "stable_rank")
    assert len(files_in(runs / "out")) == 7
    for metric, reports in (("stable_rank", 7), ("effective_rank", 10)):
        changed = {**commands.PLAIN, "ATTN_RANK_COLLAPSE_METRIC": metric}
        monkeypatch.setattr(commands, "PLAIN", changed)
        attn(*SWEEP)
        assert len(files_in(runs / "out")) == reports, "the same option, set elsewhere, is the same"


@pytest.mark.slow
def test_a_half_written_report_does_not_count(runs: Path) -> None:
    whole = attn(*SWEEP).out
    victim = sorted((runs / "out").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:500])
    (runs / "out" / f".{victim.name}.abc.json").write_text("{")
    assert attn(*SWEEP).out == whole
    assert read_report_if_complete(str(victim)) is not None
    assert len(files_in(runs / "out")) == 3


@pytest.mark.slow
def test_a_failing_item_is_told_and_the_rest_goes_on(runs: Path) -> None:
    (runs / "net-500.safetensors").write_text("broken")
    outcome = attn(*SWEEP)
    assert outcome.code == 3
    assert "(3 of 4 items; 1 failed)" in outcome.out
    assert "FAIL  net-500.safetensors  (exit 3: net-500.safetensors cannot be read" in outcome.out
    os.unlink("net-500.safetensors")
    assert attn(*SWEEP).code == 0


@pytest.mark.slow
def test_duplicate_weights_and_gates(runs: Path) -> None:
    shutil.copy("net-100.safetensors", "net-2000.safetensors")
    outcome = attn(*SWEEP, "--fail-if", "log10_residual[step=900:] < -0.001")
    assert outcome.code == 1
    assert "net-2000.safetensors has the same weights as net-100.safetensors" in outcome.err
    assert attn(*SWEEP, "--show", "max(log10_residual)", "--format", "csv").out.count("\n") == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sweep", "rank-collapse"), "nothing to sweep"),
        (("sweep", "rank-collapse", "--glob", "no-*"), "--glob no-* matches nothing"),
        (
            ("sweep", "--jobs=3", "rank-collapse", "--model", "a"),
            "no such option: --jobs; options of the swept",
        ),
        (("sweep", "approximate", "--model", "a"), "unknown command to sweep 'approximate'"),
        (("sweep", "--model", "a"), "a is no finished report: say what is run on it"),
        ((*SWEEP, "--show", "all(sink)"), "min(), max() or mean()"),
        ((*SWEEP, "--show", "sink <"), "cannot read 'sink <'"),
        ((*SWEEP, "--show", "sink"), "unknown metric in --show 'sink'"),
        (
            (*SWEEP, "--show", "order[layer=99]"),
            "--show 'order[layer=99]' matches nothing at layer=99",
        ),
        ((*SWEEP, "--show", "order[layer=]"), "cannot read 'layer=' in --show 'order[layer=]'"),
        ((*SWEEP, "--fail-if", "sink"), "cannot read the gate"),
    ],
)
def test_misuse(runs: Path, arguments: tuple[str, ...], said: str) -> None:
    outcome = attn(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_items_in_the_order_of_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name in ("run-2/checkpoint-900", "run-10/checkpoint-5", "run-2/checkpoint-1000"):
        (tmp_path / name).mkdir(parents=True)
    found = list_swept_models(["org/name@step7"], ["run-*/*"])
    assert found == ["org/name@step7", "./run-2/checkpoint-900", "./run-2/checkpoint-1000", "./run-10/checkpoint-5"]  # fmt: skip
    assert parse_training_steps(found) == [7, 900, 1000, 5]
    assert parse_training_steps(["a-1", "b-1"]) == parse_training_steps(["a", "b1"]) == [0, 1]
    with pytest.raises(UsageError, match="nothing to sweep"):
        list_swept_models([], [])


def test_revisions_of_the_hub_by_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    from attncli.models.files.hub_revisions import UNREACHABLE

    def listed(api: HfApi, name: str) -> SimpleNamespace:
        if name == "gone/away":
            raise UNREACHABLE[0]("no route")
        refs = [SimpleNamespace(name=name) for name in ("main", "step1000", "step200", "v1")]
        return SimpleNamespace(branches=refs[:2], tags=refs[2:])

    monkeypatch.setattr(HfApi, "list_repo_refs", listed)
    assert list_swept_models(["org/name"], [], "step*") == ["org/name@step200", "org/name@step1000"]
    with pytest.raises(InputError, match="it has main, step1000, step200, v1"):
        list_swept_models(["org/name"], [], "x*")
    with pytest.raises(
        InputError, match="cannot be asked for the revisions of gone/away: no route"
    ):
        list_swept_models(["gone/away"], [], "step*")
    for other in ("./folder", "random:bert", "org/name@main"):
        with pytest.raises(UsageError, match="Hub models named by their id"):
            list_swept_models([other], [], "step*")


def test_a_text_that_changed_makes_another_report(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one")
    options = {"text_file": str(text), "metric": None}
    first = report_file_name("rank-collapse", options, "org/name")
    assert first == report_file_name("rank-collapse", options, "org/name")
    text.write_text("other")
    assert first != report_file_name("rank-collapse", options, "org/name")


WAYS = ("environment", "config", "pyproject", "command line")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_text_that_changed_is_measured_again_wherever_it_was_named(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same name, same size, same time: only what stands in it is another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids").write_text("[1, 2, 3, 4]")
    os.utime("ids", (1, 1))
    table = "[rank-collapse]\ntoken-ids = ['@ids']\n"
    (tmp_path / "attn.toml").write_text(table)
    words = ["sweep", "rank-collapse", "--model", "random:bert?tiny", "--variants", "transformer"]
    if way == "environment":
        monkeypatch.setattr(commands, "PLAIN", {**commands.PLAIN, "ATTN_RANK_COLLAPSE_TOKEN_IDS": "@ids"})  # fmt: skip
    elif way == "config":
        words += ["--config", "attn.toml"]
    elif way == "pyproject":
        Path("pyproject.toml").write_text(table.replace("[rank", "[tool.attn.rank"))
    else:
        words += ["--token-ids=@ids"]
    tables = [attn(*words).out]
    assert attn(*words).out == tables[0]
    assert len(files_in(tmp_path / "attn-sweep")) == 1
    (tmp_path / "ids").write_text("[1, 2, 3, 9]")
    os.utime("ids", (1, 1))
    tables.append(attn(*words).out)
    assert len(files_in(tmp_path / "attn-sweep")) == 2
    assert "(1 item)" in tables[0]
    assert tables[0] != tables[1]


@pytest.mark.slow
def test_files_called_like_options_are_measured_and_nothing_else(runs: Path) -> None:
    """In their place the built-in network would be measured, with that option."""
    for name in ("--no-skip", "-q", "--layers=1", "~x", "random:bert", "a b"):
        shutil.copy("net-900.safetensors", runs / name)
    words = ("sweep", "rank-collapse", "--variants", "SAN,SAN+skip", "--format", "json", "--glob")
    wanted = json.loads(attn(*words, "net-900*").out)["rows"]
    for pattern in ("*skip", "-q", "--lay*", "~x", "random:*", "a b"):
        outcome = attn(*words, pattern)
        assert outcome.code == 0, outcome.err
        found = json.loads(outcome.out)["rows"]
        assert [row["value"] for row in found] == [row["value"] for row in wanted]


def test_what_every_item_would_write_over_is_refused(runs: Path) -> None:
    outcome = attn("sweep", "inspect-model", "--model", "random:bert?tiny", "--save-maps", "m.safetensors")  # fmt: skip
    assert outcome.code == 2
    assert "--save-maps m.safetensors would be written by every item" in outcome.err


def test_options_that_no_item_has_are_refused_before_any_is_run(runs: Path) -> None:
    with mock.patch.object(local, "LocalWorker") as run:
        outcome = attn(*SWEEP, "--laers", "3")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--layers" in outcome.err
    assert not run.called


@pytest.mark.slow
def test_a_report_of_files_that_changed_meanwhile_is_not_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    whole = local.LocalWorker.read_job_outcome

    def slow(worker: local.LocalWorker) -> ProcessRun:
        done = whole(worker)
        if worker.place == 1:
            shutil.copy("net-100.safetensors", "net-900.safetensors")
        return done

    monkeypatch.setattr(local.LocalWorker, "read_job_outcome", slow)
    outcome = attn(*SWEEP)
    assert outcome.code == 3
    assert "net-900.safetensors  (its files changed while it was measured" in outcome.out
    assert len(files_in(runs / "out")) == 2


def wait_for_more(out: Path, process: "subprocess.Popen[bytes]", wanted: int) -> None:
    """Until so many items are finished, or the sweep has ended because there are no more."""
    while process.poll() is None and reports_in(out) < wanted:
        time.sleep(0.005)


def reports_in(out: Path) -> int:
    return len(list(out.glob("[!.]*"))) if out.is_dir() else 0


def wait_for_group(number: int) -> None:
    """Until every process of the group is gone: what a killed sweep has started goes on and writes its report."""
    while any(group == number and state != "Z" for group, state in processes()):
        time.sleep(0.005)


def processes() -> Iterator[tuple[int, str]]:
    """Group and state of every process."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group = file.read_text().rpartition(")")[2].split()[:3]
            yield int(group), state


@pytest.mark.slow
def test_kill_9_at_ten_moments_loses_nothing_but_the_item_in_hand(runs: Path) -> None:
    """Alternately the sweep alone and the run that it has started too, before or after an item is finished."""
    for step in range(2000, 12000, 1000):
        network(runs, step)
    chance = random.Random(0)
    out, done = runs / "out", {}
    for turn in range(10):
        process = subprocess.Popen([*ATTN, *SWEEP], env=PLAIN, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        wait_for_more(out, process, wanted=reports_in(out) + chance.choice((0, 1)))
        time.sleep(chance.uniform(0.0, 0.5))  # to kill at any place; nothing below depends on which
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if turn % 2 else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
        wait_for_group(process.pid)
        now = {path.name: path.stat().st_mtime_ns for path in out.glob("[!.]*")} if out.is_dir() else {}  # fmt: skip
        assert done.items() <= now.items(), "a finished item was lost or run again"
        assert all(read_report_if_complete(str(out / name)) for name in now), "a corrupt file"
        done = now
    assert len(done) > 3
    resumed = attn(*SWEEP)
    assert resumed.code == 0
    shutil.rmtree(out)
    assert attn(*SWEEP).out == resumed.out
    assert len(files_in(out)) == 13


def test_reports_that_are_finished_are_read_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Such as the history of a training; what cannot be read is told, and the rest is there."""
    monkeypatch.chdir(tmp_path)
    for step, scale in ((5, "0.4"), (10, "0.6"), (100, "1.0")):
        line = ("rank-collapse", "--layers", "2", "--tokens", "8", "--width", "8", "--heads", "2", "--init-scale", scale, "--seeds", "1")  # fmt: skip
        assert attn(*line, "-q", "-o", f"step-{step:06d}.json").code == 0
    found = attn("sweep", "--glob", "step-*.json", "--format", "json")
    assert found.code == 0, found.err
    report = json.loads(found.out)
    assert [row["step"] for row in report["rows"] if row["series"] == "SAN"] == [5, 10, 100]
    own = json.loads(Path("step-000010.json").read_text())
    (last,) = [row["value"] for row in own["rows"] if row["metric"] == "log10_residual" and row["variant"] == "SAN" and row["layer"] == 2]  # fmt: skip
    assert [row["value"] for row in report["rows"] if row["step"] == 10 and row["series"] == "SAN"] == [last]  # fmt: skip
    assert not Path("attn-sweep").exists()
    Path("step-000010.json").write_text("{")
    broken = attn("sweep", "--glob", "step-*.json")
    assert broken.code == 3
    assert "2 of 3 items; 1 failed" in broken.out


@pytest.mark.slow
def test_several_reports_of_one_model_are_told_apart_by_their_files(runs: Path) -> None:
    """Collected from a folder: each is a line of its own, at a step of its own, with its own numbers."""
    Path("two").mkdir()
    for name, variants in (("a", "SAN"), ("b", "SAN,SAN+skip")):
        run = ("rank-collapse", "net-100.safetensors", "--variants", variants)
        assert attn(*run, "-q", "-o", f"two/{name}.json").code == 0
    outcome = attn("sweep", "--collect", "two", "--format", "json")
    assert outcome.code == 0, outcome.err
    rows = json.loads(outcome.out)["rows"]
    assert [(row["item"], row["step"], row["series"]) for row in rows] == [
        ("net-100.safetensors (a.json)", 0, "SAN"),
        ("net-100.safetensors (b.json)", 1, "SAN"),
        ("net-100.safetensors (b.json)", 1, "SAN+skip"),
    ]
    assert rows[0]["value"] == rows[1]["value"]
