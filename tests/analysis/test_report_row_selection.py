"""Part of a saved report: the tables and rows that the question itself gives where it is asked for no more."""

from typing import Any

import pytest
from commands import attn

import attncli
from attncli.analysis.report_row_selection import select_report_rows
from attncli.errors import AttnError
from attncli.records import Definition, Report, Row, View

MODEL = (
    "inspect-model",
    "random:bert?tiny&layers=3",
    "--random-tokens",
    "12",
    "--samples",
    "3",
    "-q",
)
METRICS = ("--metric", "induction,sink")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a model's heads do, with all that is measured if nothing is asked for."""
    path = str(tmp_path_factory.mktemp("reports") / "heads.json")
    assert attn(*MODEL, "-o", path).code == 0
    return path


def tables(text: str) -> str:
    """But for the first line, which is that of the whole report."""
    return text.partition("\n")[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        (*METRICS, "--sort", "induction", "--top", "3"),
        (*METRICS, "--sort", "sink:rising"),
        (*METRICS, "--top", "2"),
    ],
)
def test_a_saved_report_shows_what_the_model_would(saved: str, words: tuple[str, ...]) -> None:
    theirs, ours = attn(*MODEL, *words), attn("check", saved, *words)
    assert (theirs.code, ours.code) == (0, 0)
    assert tables(ours.out) == tables(theirs.out)
    csv = [attn(*run, *words, "--format", "csv").out for run in (MODEL, ("check", saved))]
    assert sorted(csv[0].splitlines()) == sorted(csv[1].splitlines())


@pytest.mark.slow
def test_gates_see_the_whole_report(saved: str) -> None:
    gate = ("--fail-if", "max_activation > 0")
    outcome = attn("check", saved, "--sort", "sink", "--metric", "sink", "--top", "1", *gate)
    assert (outcome.code, len(outcome.out.splitlines())) == (1, 7)


@pytest.mark.slow
def test_python_selects(saved: str) -> None:
    report = attncli.read(saved)
    chosen = report.select("sink", sort="induction:rising", top=2)
    heads = [(row.layer, row.head) for row in chosen.rows if row.metric == "induction"]
    values = {(row.layer, row.head): row.value or 0.0 for row in report.rows if row.metric == "induction"}  # fmt: skip
    assert heads == sorted(values, key=values.__getitem__)[:2]
    assert {row.metric for row in chosen.rows} == {"induction", "sink"}
    assert set(chosen.metrics) == {"induction", "sink"}
    assert report.select() == report
    assert chosen.text().splitlines()[3].split() == ["layer.head", "induction", "sink"]


def number(metric: str, head: int | None, **more: Any) -> Row:
    return Row(metric, 0.5, "1", layer=1, head=head, **more)


HEADS = Report("x", "", (number("sink", 0), number("sink", 1), number("state", None)), {}, {})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"metrics": ["sinc"]}, "unknown metric of the report 'sinc': did you mean 'sink'?"),
        ({"sort": "state"}, "unknown metric of heads in `sort` 'state'"),
        ({"sort": "sink:up"}, "write sink or sink:rising"),
        ({"top": 3}, "`top` needs a metric to order heads by"),
        ({"top": 0, "sort": "sink"}, "must be at least 1"),
    ],
)
def test_what_the_report_does_not_hold_is_named(words: dict[str, Any], said: str) -> None:
    with pytest.raises(AttnError) as caught:
        select_report_rows(HEADS, **{"metrics": [], "sort": None, "top": None, **words})
    assert said in str(caught.value)


def test_heads_with_several_numbers_have_no_order() -> None:
    twice = Report("x", "", tuple(number("sink", 0, keys={"tokens": n}) for n in (8, 16)), {}, {})
    with pytest.raises(AttnError, match="needs one number of a head"):
        select_report_rows(twice, [], "sink", None)
    states = Report("x", "", (number("state", None),), {}, {})
    with pytest.raises(AttnError, match="holds no number of one"):
        select_report_rows(states, [], "state", None)


def test_own_tables_stay_and_what_has_none_gets_one() -> None:
    view = View("a table", "layer", ("sink", "state"), where={"stack": "encoder"})
    meaning = {name: Definition("1", "p") for name in ("sink", "state", "entropy")}
    rows = (*HEADS.rows, number("entropy", 1, keys={"stack": "decoder"}))
    report = Report("x", "", rows, meaning, {}, views=(view,))
    found = select_report_rows(report, ["state", "entropy"], None, None)
    assert [(each.title, each.metrics, dict(each.where)) for each in found.views] == [
        ("a table", ("state",), {"stack": "encoder"}),
        ("decoder: entropy", ("entropy",), {"stack": "decoder"}),
    ]
    assert list(found.metrics) == ["state", "entropy"]
