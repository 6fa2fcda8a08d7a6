"""A sweep's table: trends by hand, failures as nulls that no gate passes over, duplicate weights."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from attncli.commands.utilities.sweep.report import SweepItem, SweepMetric, build_sweep_report
from attncli.gates import (
    AGGREGATES,
    decide_report_gates,
    parse_condition,
    parse_selection_and_aggregate,
    select_gated_rows,
)
from attncli.records import Definition, Report, Row, Verdict
from attncli.render import FORMATS
from attncli.render.plots.matplotlib_figure import save_figure
from attncli.render.plots.terminal_plot import plot_in_terminal
from attncli.reports.json_report_reading import parse_json_report


def shown(text: str) -> SweepMetric:
    selection, aggregate = parse_selection_and_aggregate(text)
    choose: Callable[[Report], Sequence[Row]] = lambda report: select_gated_rows(report, selection)  # noqa: E731
    return SweepMetric(text, selection.metric, choose, aggregate, AGGREGATES[aggregate])


def item(step: int, value: float | None, weights: str = "", *more: Row) -> SweepItem:
    note = None if value is not None else "zero, or beyond"
    row = Row("order", value, "1", "SAN", 3, spread=None if value is None else 0.5, n=2, note=note)
    source = {"weight_sha256": weights or str(step)}
    meaning = {"order": Definition("1", "p")}
    return SweepItem(f"checkpoint-{step}", step, Report("x", "", (row, *more), meaning, source))


def swept(*items: SweepItem, text: str = "order[layer=-1]") -> Report:
    return build_sweep_report(items, shown(text))


def trend(*values: float) -> str:
    report = swept(*(item(10 * place, value) for place, value in enumerate(values)))
    return report.findings[0].text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((1.0, 2.0, 3.0), "1 → 3, rises in 3 of 3 pairs, +0.1 a step (median)"),
        ((3.0, 2.0, -1.0), "3 → -1, falls in 3 of 3 pairs, -0.2 a step (median)"),
        ((1.0, 9.0, 2.0, 3.0), "1 → 3, rises in 4 of 6 pairs, +0.0583 a step (median)"),
        ((1.0, 1.0, 1.0), "1 → 1, no trend"),
        ((1.0, 2.0, 1.0), "1 → 1, no trend"),
        ((1.0,), "too few numbers for a trend"),
    ],
)
def test_trends(values: tuple[float, ...], said: str) -> None:
    assert trend(*values) == said


def test_a_row_keeps_its_spread_and_gets_its_place() -> None:
    (row,) = swept(item(500, 2.0)).rows
    assert (row.value, row.spread, row.n, row.variant) == (2.0, 0.5, 2, "SAN")
    assert row.keys == {"item": "checkpoint-500", "step": 500, "series": "SAN"}


@pytest.mark.parametrize(("text", "value"), [("order", 2.5), ("max(order)", 4.0), ("min(order)", 1.0)])  # fmt: skip
def test_several_rows_become_one_number(text: str, value: float) -> None:
    (row,) = swept(item(1, 1.0, "", Row("order", 4.0, "1", "SAN", 4)), text=text).rows
    assert (row.value, row.spread, row.layer) == (value, None, None)


def test_a_lost_number_is_not_averaged_away() -> None:
    (row,) = swept(item(1, None, "", Row("order", 4.0, "1", "SAN", 4)), text="order").rows
    assert (row.value, row.note) == (None, "SAN, layer 3: zero, or beyond")


def test_a_failed_item_is_told_and_fails_every_gate() -> None:
    report = swept(item(1, 2.0), SweepItem("checkpoint-2", 2, None, "exit 3: broken."))
    assert [(row.value, row.note) for row in report.rows] == [(2.0, None), (None, "exit 3: broken.")]  # fmt: skip
    assert report.headline.endswith("(1 of 2 items; 1 failed).")
    assert report.verdicts == (Verdict("checkpoint-2", True, "exit 3: broken.", stopped=True),)
    assert decide_report_gates(report, [parse_condition("order < -100")])[0].failed
    (lost,) = swept(SweepItem("a", 0, None, "exit 3: broken.")).rows
    assert lost.is_missing


def test_the_same_weights_are_flagged_once_each() -> None:
    report = swept(item(1, 1.0, "w"), item(2, 1.0, "v"), item(3, 1.0, "w"), item(4, 1.0, "w"))
    assert report.warnings == tuple(
        f"checkpoint-{step} has the same weights as checkpoint-1" for step in (3, 4)
    )


@pytest.mark.slow
@given(values=st.lists(st.none() | st.floats(-1e300, 1e300), min_size=1, max_size=6))
def test_any_sweep_is_a_report(values: list[float | None]) -> None:
    report = swept(*(item(step, value) for step, value in enumerate(values)))
    assert [row.value for row in report.rows] == values
    assert parse_json_report(FORMATS["json"](report)) == report
    FORMATS["markdown"](report)


@pytest.mark.parametrize(
    ("text", "more", "named"),
    [
        ("max(order)", (), "max(order)"),
        ("order", (), "order"),
        ("order", (Row("order", 4.0, "1", "SAN", 4),), "mean(order)"),
    ],
)
def test_a_plot_names_its_axis_by_what_is_shown(text: str, more: Sequence[Row], named: str, tmp_path: Path) -> None:  # fmt: skip
    report = swept(item(1, 2.0, "", *more), item(2, 3.0), text=text)
    assert report.views[0].title == f"{named} over the sweep"
    path = tmp_path / "plot.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        save_figure(report, path)
    words = [text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert named in words


def test_a_plot_marks_the_item_that_failed(tmp_path: Path) -> None:
    """The last of three: without its mark the curve would seem to end at the second."""
    failed = SweepItem("checkpoint-300", 300, None, "exit 3: broken.")
    report = swept(item(100, 2.0), item(200, 3.0), failed)
    lines = drawn_in_terminal(report)
    (axis,) = [line for line in lines if "└" in line]
    assert axis.rstrip().endswith("×")
    assert axis.count("×") == 1
    assert any("100" in line and "step" in line and "300" in line for line in lines)
    assert "× no number" in lines[-1]
    assert "×" not in "".join(drawn_in_terminal(swept(item(100, 2.0), item(200, 3.0))))
    path = tmp_path / "plot.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        save_figure(report, path)
    assert "no number" in path.read_text()


def drawn_in_terminal(report: Report) -> list[str]:
    buffer = io.StringIO()
    Console(file=buffer, width=80).print(plot_in_terminal(report))
    return buffer.getvalue().rstrip().splitlines()
