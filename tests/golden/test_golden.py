"""The quick part of the golden comparison, and the comparer's own laws; `run.py` and `compare.py` do the rest by hand."""

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from golden import compare, numeric
from golden.cases import CASES
from golden.spelling import sentence_of_design, words_of_design

EXPECTED = json.loads(numeric.NUMBERS.read_text())


@pytest.mark.parametrize("line", numeric.QUICK)
def test_numbers_keys_and_order_are_those_of_the_base(line: str) -> None:
    found = numeric.numbers_of(numeric.report_of(line))
    wanted = EXPECTED[line]
    assert found["study"] == wanted["study"]
    assert [row[0] for row in found["rows"]] == [row[0] for row in wanted["rows"]]
    for ours, base in zip(found["rows"], wanted["rows"], strict=True):
        assert same(ours[1:], base[1:]), (ours, base)


def same(ours: list[Any], base: list[Any]) -> bool:
    return all(
        one is other
        or (None not in (one, other) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12))
        for one, other in zip(ours, base, strict=True)
    )


def test_the_list_is_as_long_as_it_must_be_and_names_each_case_once() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    refusals = [name for name in names if name.startswith("refused: ")]
    assert len(refusals) >= 150
    assert len(names) - len(refusals) >= 200
    assert set(compare.DECIDED) <= set(names)


RECORD: Any = {
    "steps": [{"step": "x", "code": 0, "out": "a 1\nb 2\n", "err": ""}],
    "files": {"r.json": {"json": {"study": "s", "headline": "h", "command": ["x"], "rows": [{"metric": "m", "value": 1.0}, {"metric": "n", "value": 2.0}]}}},
}  # fmt: skip


def report(record: Any) -> Any:
    return record["files"]["r.json"]["json"]


CHANGES: dict[str, Callable[[Any], object]] = {
    "a number": lambda record: report(record)["rows"][0].update(value=math.nextafter(1.0, 2.0)),
    "a null": lambda record: report(record)["rows"][0].update(value=None),
    "a headline": lambda record: report(record).update(headline="H"),
    "a study": lambda record: report(record).update(study="t"),
    "the order of rows": lambda record: report(record)["rows"].reverse(),
    "a row more": lambda record: report(record)["rows"].append({"metric": "o", "value": 3.0}),
    "a field more": lambda record: report(record).update(extra=1),
    "a field less": lambda record: report(record).pop("study"),
    "a whole number for a fraction": lambda record: report(record)["rows"][0].update(value=1),
    "an exit code": lambda record: record["steps"][0].update(code=1),
    "a line of a table": lambda record: record["steps"][0].update(out="a 1\nb 3\n"),
    "a line less": lambda record: record["steps"][0].update(out="a 1\n"),
    "a sentence": lambda record: record["steps"][0].update(err="attn: no.\n"),
    "a file less": lambda record: record["files"].clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(change: str) -> None:
    changed = copy.deepcopy(RECORD)
    CHANGES[change](changed)
    assert [*compare.of_case(RECORD, changed)]
    assert not [*compare.of_case(RECORD, copy.deepcopy(RECORD))]


def test_only_the_listed_rewording_of_a_line_is_no_difference() -> None:
    was = "2 layers; of 4 heads 4 uniform."
    assert compare.is_reworded(was, "2 layers; 4 heads: all uniform.")
    assert not compare.is_reworded(was, "2 layers.")


def test_what_names_the_command_line_is_left_out() -> None:
    changed = copy.deepcopy(RECORD)
    report(changed)["command"] = ["y"]
    changed["steps"][0]["step"] = "y"
    assert not [*compare.of_case(RECORD, changed)]


def test_a_decided_change_is_one_of_sentences_alone() -> None:
    changed = copy.deepcopy(RECORD)
    changed["steps"][0]["err"] = "attn: no.\n"
    assert not [*compare.of_case(RECORD, changed, decided=True)]
    changed["steps"][0]["code"] = 3
    assert [*compare.of_case(RECORD, changed, decided=True)]


def test_a_case_that_one_run_lacks_is_a_difference() -> None:
    assert [*compare.of_case(RECORD, None)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rank-collapse --layers 2", "rank-collapse --layers 2"),
        ("rank-collapse --task circle --width 8", "reproduce circle --width 8"),
        ("paths --task sort --seeds 1", "reproduce sort --seeds 1"),
        ("paths --count --layers 3", "count-paths --layers 3"),
        ("paths ./a --sensitivity", "sensitivity ./a"),
        ("inspect-model ./a --weights-only --layers 0", "inspect-weights ./a --layers 0"),
        ("inspect-model maps.npy --metric sink", "inspect-maps maps.npy --metric sink"),
        ("inspect-model ./a --sweep tokens=4:8", "dispersion ./a --lengths 4:8"),
        ("inspect-model ./a --text x --attribute -1", "attribute ./a --text x --token -1"),
        ("approximate --verify fit.safetensors", "verify-fit fit.safetensors"),
        ("approximate --module ./a:0.1 --pattern p", "head-capacity ./a --head 0.1 --pattern p"),
        ("approximate --heads ./a --length 8", "head-capacity ./a --length 8"),
        ("approximate --task rank-heads --ranks 1", "reproduce rank-heads --ranks 1"),
        ("sweep inspect-model --model ./a --weights-only", "sweep inspect-weights --model ./a"),
        ("config show paths --count", "config show count-paths"),
    ],
)
def test_modes_are_respelt_as_commands(old: str, new: str) -> None:
    assert words_of_design(old.split()) == new.split()


def test_sentences_of_respelt_cases_name_the_new_commands() -> None:
    said = "attn inspect-model --weights-only takes a model"
    assert sentence_of_design(said) == "attn inspect-weights takes a model"
