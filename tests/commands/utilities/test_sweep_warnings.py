"""What many items warn of is told once."""

from functools import partial
from statistics import fmean

from attncli import gates
from attncli.commands.utilities.sweep.report import SweepItem, SweepMetric, build_sweep_report
from attncli.records import Report, Row


def item(step: int, *warnings: str) -> SweepItem:
    report = Report("example", "", (Row("sink", 0.5, "1"),), {}, {}, warnings=warnings)
    return SweepItem(f"net-{step}", step, report)


def test_a_warning_of_many_items_is_told_once() -> None:
    selection, aggregate = gates.parse_selection_and_aggregate("sink")
    shown = SweepMetric(
        "sink", "sink", partial(gates.select_gated_rows, selection=selection), aggregate, fmean
    )
    items = [item(1, "weights are random"), item(2, "weights are random", "cut"), SweepItem("net-3", 3, None, "gone")]  # fmt: skip
    found = build_sweep_report(items, shown)
    assert found.warnings == ("net-1 and 1 more: weights are random", "net-2: cut")
