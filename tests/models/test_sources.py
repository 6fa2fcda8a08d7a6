"""SOURCE on the command line: every form of it, and what is no form."""

import contextlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from attncli.errors import InputError, UsageError
from attncli.model_and_file_sources import (
    ARRAYS,
    MODELS,
    WORDS,
    Kind,
    Source,
    format_unambiguous_path,
    parse_source,
    require_accepted_file_or_model,
)

ONES = np.ones((1, 2, 2))


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("bert-base-uncased", Source("hub", "bert-base-uncased")),
        ("google/t5-v1_1-base", Source("hub", "google/t5-v1_1-base")),
        ("org/name@main", Source("hub", "org/name", "main")),
        ("EleutherAI/pythia-2.8b@step1000", Source("hub", "EleutherAI/pythia-2.8b", "step1000")),
        ("org/name@refs/pr/3", Source("hub", "org/name", "refs/pr/3")),
        ("./model", Source("folder", "./model")),
        ("../model", Source("folder", "../model")),
        ("/models/org@2", Source("folder", "/models/org@2")),
        ("~/model", Source("folder", "~/model")),
        (".", Source("folder", ".")),
        ("random:bert", Source("random", "bert")),
        ("random:xlm-roberta", Source("random", "xlm-roberta")),
        (
            "random:llama?layers=4&width=64&tiny",
            Source("random", "llama", sizes={"layers": 4, "width": 64, "tiny": 1}),
        ),
        (
            "random:t5?text_config.rate=1e-3&kind=gelu",
            Source("random", "t5", sizes={"text_config.rate": 1e-3, "kind": "gelu"}),
        ),
    ],
)
def test_every_form_is_read(text: str, source: Source) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no model"),
        ("a/b/c", "names no model"),
        ("org/", "names no model"),
        ("org//name", "names no model"),
        ("org/na me", "names no model"),
        ("org/..", "names no model"),
        ("org/a..b", "names no model"),
        ("org/name@", "names no model"),
        ("random:", "names no model type"),
        ("random:bert?", "is no size"),
        ("random:bert?layers=", "is no size"),
        ("random:bert?layers=2,width=3", "is no size"),
        ("random:bert?layers=2&layers=3", "layers twice"),
    ],
)
def test_what_fits_no_form_is_refused_with_the_grammar(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        parse_source(text)
    assert "random:" in str(refused.value)
    assert "\n" not in str(refused.value)


HERE: Mapping[str, bytes] = {
    "net.safetensors": save({"x": ONES}, {"format": "attn-network"}),
    "maps.safetensors": save({"x": ONES}, {"format": "attn-maps"}),
    "others-maps.safetensors": save({"decoder.layers.3.cross_attention": ONES}),
    "fit.safetensors": save({"w_q": ONES}, {"format": "attn-fit"}),
    "model.safetensors": save({"layers.0.attention.query.weight": ONES}),
    "no-ending": save({"x": ONES}, {"format": "attn-network"}),
    "report.json": b'{\n  "schema_version": 1}',
    "a-report": b'{"schema_version": 1}',
    "maps.npz": b"PK\x03\x04",
    "mask.npy": b"\x93NUMPY",
    "graph.mtx": b"%%MatrixMarket",
    "table.csv": b"1,2",
    "model.bin": b"PK\x03\x04",
    "gpt2": b"",
    "notes": b"hello",
}
KINDS: Mapping[str, Kind] = {
    "net.safetensors": "network",
    "maps.safetensors": "maps",
    "others-maps.safetensors": "maps",
    "fit.safetensors": "fit",
    "model.safetensors": "weights",
    "./no-ending": "network",
    "no-ending": "hub",
    "report.json": "report",
    "./a-report": "report",
    "maps.npz": "pattern",
    "mask.npy": "pattern",
    "graph.mtx": "pattern",
    "table.csv": "pattern",
    "model.bin": "pickle",
    "gpt2": "hub",
    "./gpt2": "other",
    "./notes": "other",
    "./folder": "folder",
    "folder": "hub",
    "./not-there": "folder",
    "random:bert": "random",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of every kind in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, content in HERE.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(("text", "kind"), KINDS.items())
def test_what_a_file_is_its_content_says(text: str, kind: Kind, here: Path) -> None:
    assert parse_source(text).kind == kind


def test_no_kind_was_forgotten() -> None:
    assert {"synthetic", "live", *KINDS.values()} == set(WORDS)


def test_a_file_that_is_not_there_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "maps.safetensors"
    with pytest.raises(InputError, match="there is no file"):
        parse_source(str(path))
    for broken in (b"", b"hello", b"\x05" + bytes(7) + b"{", b"\x02" + bytes(7) + b"[]"):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="cannot be read as safetensors"):
            parse_source(str(path))


@pytest.mark.parametrize("name", ["--no-skip", "random:x", "~x", ".hidden", "plain", "a.safetensors", "-.npz", "runs/a"])  # fmt: skip
def test_a_path_as_source_is_written_means_that_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(HERE["net.safetensors"])
    source = parse_source(format_unambiguous_path(name))
    assert not source.name.startswith("-")
    assert source.kind in ("network", "pattern")
    assert source.path.resolve() == tmp_path / name


def test_gguf_is_refused_by_name() -> None:
    for text in ("tiny.gguf", "./models/Tiny.GGUF"):
        with pytest.raises(InputError, match="GGUF"):
            parse_source(text)


def test_a_folder_that_shadows_a_hub_id_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    source = parse_source("org/name")
    assert source.kind == "hub"
    assert "./org/name" in source.warnings[0]
    assert parse_source("./org/name") == Source("folder", "./org/name")
    (tmp_path / "org" / "name" / "sub").mkdir()
    with pytest.raises(UsageError, match=r"for a folder \./org/name/sub"):
        parse_source("org/name/sub")


def test_home_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse_source("~/model").path == Path("/home/someone/model")
    assert parse_source("./~x").path == Path("./~x")
    with pytest.raises(InputError, match="~nobody-here/x: there is no such home"):
        parse_source("~nobody-here/x")


@pytest.mark.parametrize("text", ["bert", "@", "random:a?b=c", "./", "\0", "a\nb", "-x", "é/è"])
def test_nothing_else_comes_out(text: str) -> None:
    with contextlib.suppress(UsageError, InputError):
        assert parse_source(text).kind in ("hub", "folder", "random")


def test_parsing_imports_neither_torch_nor_transformers() -> None:
    code = "import sys; from attncli.model_and_file_sources import parse_source; parse_source('random:bert'); sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", ARRAYS)
def test_whatever_may_hold_maps_is_sent_to_who_reads_them(kind: Kind) -> None:
    with pytest.raises(InputError, match=r"`inspect_maps`.* reads? "):
        require_accepted_file_or_model(Source(kind, "maps.npz"), MODELS, "`inspect_model`")
