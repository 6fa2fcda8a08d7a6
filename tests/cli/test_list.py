"""`attn list`: the same entries as text, as CSV and as JSON."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from commands import attn

from attncli.commands.utilities.list.command import wrap_entry_summary
from attncli.commands.utilities.list.registry_catalogue import LISTS


@pytest.mark.parametrize("what", LISTS)
def test_every_list_is_data_too(what: str) -> None:
    """Nothing but the data; names and summaries those of the text."""
    text = [line for line in attn("list", what).out.splitlines() if line.startswith("  ")]
    rows = list(csv.DictReader(io.StringIO(attn("list", what, "--format", "csv").out)))
    objects = json.loads(attn("list", what, "--format", "json").out)
    assert len(text) == len(rows) == len(objects)
    for line, row, entry in zip(text, rows, objects, strict=True):
        assert line.split() == f"{entry['name']} {entry['summary']}".split()
        assert (row["list"], row["name"], row["summary"]) == (
            what,
            entry["name"],
            entry["summary"],
        )


def test_model_types_bring_what_was_found() -> None:
    """Numbers as numbers, what is not known as null."""
    found = {entry["name"]: entry for entry in json.loads(attn("list", "architectures", "--format", "json").out)}  # fmt: skip
    bert = found["bert"]
    assert (bert["ablation"], bert["exact"], bert["mixers"]) == ("understood", "equal", None)
    assert isinstance(bert["parameters"], int)
    assert bert["difference"] <= 1e-6


def test_model_types_come_by_what_mixes_their_tokens() -> None:
    """Every one below one heading, whose number says how many there are; what was not tried comes last."""
    found = json.loads(attn("list", "architectures", "--format", "json").out)
    kinds = {entry["name"]: entry["kind"] for entry in found}
    assert kinds["bert"] == "softmax attention"
    assert kinds["qwen3_next"] == "softmax attention and linear layers"
    assert kinds["mamba2"] == "linear layers"
    assert kinds["fnet"] == "mixers that are not looked at"
    assert kinds["lfm3_vl_vision"] == "softmax attention and mixers that are not looked at"
    assert kinds["resnet"] == "no attention"
    counts = Counter(kinds.values())
    headings = [line for line in attn("list", "architectures").out.splitlines() if line and line[0] != " "]  # fmt: skip
    assert headings == [f"architectures: {kind} ({count})" for kind, count in counts.items()]
    assert list(counts)[-1] == "not tried"
    assert all(entry["summary"].startswith("not tried") == (entry["kind"] == "not tried") for entry in found)  # fmt: skip


def test_a_file_says_its_format(tmp_path: Path) -> None:
    for name, format in (("a.csv", "csv"), ("a.json", "json"), ("a.txt", "table")):
        outcome = attn("list", "maps", "-o", str(tmp_path / name))
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
        assert (tmp_path / name).read_text() == attn("list", "maps", "--format", format).out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--format", "xml"], "unknown format of lists 'xml'"),
        (["maps", "-o", "maps.png"], "does not say in which format"),
        (["schema", "--format", "csv"], "the schema is JSON"),
        (["maps", "-o", "missing/maps.csv"], "missing"),
        (["mapz"], "did you mean 'maps'?"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = attn("list", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("width", [66, 79])
def test_at_a_terminal_no_word_of_a_list_is_broken(width: int) -> None:
    """Whole words, in order, below the beginning of the summary; no line wider than the terminal."""
    for line in attn("list").out.splitlines():
        parts = wrap_entry_summary(line, width)
        assert " ".join(" ".join(parts).split()) == " ".join(line.split())
        assert max(map(len, parts)) <= width or len(parts) == 1
        assert len({len(part) - len(part.lstrip()) for part in parts[1:]}) <= 1
