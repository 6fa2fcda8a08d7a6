"""`attn list`: the same entries as text, as CSV and as JSON."""

import csv
import io
import json
from pathlib import Path

import pytest
from commands import attn

from attncli.cli.catalogue import LISTS


@pytest.mark.parametrize("what", LISTS)
def test_every_list_is_data_too(what: str) -> None:
    """Nothing but the data; names and summaries those of the text."""
    text = attn("list", what).out.splitlines()[1:]
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
