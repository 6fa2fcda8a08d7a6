"""SOURCE on the command line: every form of it, and what is no form."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from attncli.checkpoints.sources import Source, parse
from attncli.errors import InputError, UsageError


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
    assert parse(text) == source


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
        parse(text)
    assert "random:" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_safetensors_file_is_a_file_if_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "maps.safetensors"
    with pytest.raises(InputError, match="there is no file"):
        parse(str(path))
    path.write_bytes(b"")
    assert parse(str(path)) == Source("file", str(path))


def test_gguf_is_refused_by_name() -> None:
    for text in ("tiny.gguf", "./models/Tiny.GGUF"):
        with pytest.raises(InputError, match="GGUF"):
            parse(text)


def test_a_folder_that_shadows_a_hub_id_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    source = parse("org/name")
    assert source.kind == "hub"
    assert "./org/name" in source.warnings[0]
    assert parse("./org/name") == Source("folder", "./org/name")
    (tmp_path / "org" / "name" / "sub").mkdir()
    with pytest.raises(UsageError, match=r"for a folder \./org/name/sub"):
        parse("org/name/sub")


def test_home_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse("~/model").path == Path("/home/someone/model")


@pytest.mark.parametrize("text", ["bert", "@", "random:a?b=c", "./", "\0", "a\nb", "-x", "é/è"])
def test_nothing_else_comes_out(text: str) -> None:
    with contextlib.suppress(UsageError, InputError):
        assert parse(text).kind in ("hub", "folder", "random")


def test_parsing_imports_neither_torch_nor_transformers() -> None:
    code = "import sys; from attncli.checkpoints.sources import parse; parse('random:bert'); sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
