"""Boxes of quantiles: with characters, and in files."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from attncli.records import Report, Row, View
from attncli.render.plots.box_plots import collect_box_plots
from attncli.render.plots.matplotlib_figure import save_figure
from attncli.render.plots.terminal_plot import plot_in_terminal

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def rows(metric: str, length: int, *values: float | None) -> tuple[Row, ...]:
    return tuple(
        Row(metric, value, "1", keys={"length": length, "quantile": quantile}, note=None if value is not None else "lost")
        for quantile, value in zip(QUANTILES, values, strict=True)
    )  # fmt: skip


REPORT = Report(
    "paths",
    "Longer is smaller.",
    rows("size", 1, 10.0, 12.0, 15.0, 18.0, 20.0)
    + rows("size", 2, 0.0, 4.0, 5.0, 6.0, 10.0)
    + rows("size", 3, None, None, None, None, None),
    {},
    {},
    views=(View("sizes", "length", ("size",), across="quantile"),),
)


def drawn(report: Report, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(plot_in_terminal(report))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_line_is_a_box_with_its_whiskers() -> None:
    assert drawn(REPORT, 55)[1:] == [
        "sizes",
        "            ├── 5 %  ▒ 25 %  █ median  ▒ 75 %  ──┤ 95 %",
        "    length 1 │                    ├───▒▒▒▒▒▒█▒▒▒▒▒▒───┤",
        "    length 2 │├───────▒▒█▒▒───────┤",
        "             └─────────────────────────────────────────",
        "              0.000                               20.00",
    ]


def test_boxes_need_all_quantiles() -> None:
    (one,) = collect_box_plots(REPORT)
    assert [box.x for box in one.boxes] == [1.0, 2.0]
    assert one.boxes[1].median == 5.0


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_figures_of_boxes_are_the_same_bytes_each_time(ending: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    save_figure(REPORT, first)
    save_figure(REPORT, second)
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 3_000
