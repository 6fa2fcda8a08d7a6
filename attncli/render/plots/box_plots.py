"""Box plots of views that show quantiles of a metric: a box for each value of the other axis."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from attncli.maths.number_format import format_number
from attncli.records import Report, View
from attncli.render.plots.axis_labels_and_captions import format_axis_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = "quantile"

WIDEST, MARGIN = 72, 12


class BoxQuantiles(NamedTuple):
    """The quantiles of a distribution."""

    x: float
    low: float
    first: float
    median: float
    third: float
    high: float


class BoxPlot(NamedTuple):
    """The boxes of one metric."""

    title: str
    metric: str
    x_label: str
    boxes: list[BoxQuantiles]


def collect_box_plots(report: Report) -> list[BoxPlot]:
    """Collect the box plots of every such view that has numbers."""
    found = [
        BoxPlot(view.title, view.metrics[0], view.down, list(collect_boxes(report, view)))
        for view in report.views
        if view.across == ACROSS
    ]
    return [each for each in found if each.boxes]


def collect_boxes(report: Report, view: View) -> Iterator[BoxQuantiles]:
    """Collect the boxes where all five quantiles are known."""
    quantiles: dict[float, list[tuple[float, float]]] = {}
    for row in report.rows:
        x, quantile = row.axis(view.down), row.axis(ACROSS)
        if row.metric in view.metrics and row.value is not None:
            quantiles.setdefault(float(x or 0.0), []).append((float(quantile or 0.0), row.value))
    for x, found in quantiles.items():
        values = [value for _, value in sorted(found)]
        if len(values) == len(BoxQuantiles._fields) - 1:
            yield BoxQuantiles(x, *values)


def draw_box_lines(drawn: BoxPlot, width: int) -> Iterator[Text]:
    """Draw a line for each box, all on one scale."""
    low, high = min(box.low for box in drawn.boxes), max(box.high for box in drawn.boxes)
    width = max(20, min(WIDEST, width - MARGIN - 2))
    yield Text(f"\n{drawn.title}", style="italic")
    yield Text("├── 5 %  ▒ 25 %  █ median  ▒ 75 %  ──┤ 95 %".rjust(MARGIN + 2 + width), style="dim")
    for box in drawn.boxes:
        places = [round((value - low) / ((high - low) or 1.0) * (width - 1)) for value in box[1:]]
        label = f"{drawn.x_label} {box.x:g}".rjust(MARGIN)
        yield Text.assemble((f"{label} │", "dim"), (draw_box_line(*places), "cyan"))
    ends = format_number(low), format_number(high)
    gap = " " * (width - sum(map(len, ends)))
    yield Text(" " * (MARGIN + 1) + "└" + "─" * width, style="dim")
    yield Text(" " * (MARGIN + 2) + gap.join(ends), style="dim")


def draw_box_line(low: int, first: int, median: int, third: int, high: int) -> str:
    """Draw whiskers, box and median at these columns."""
    cells = [" "] * (high + 1)
    cells[low : high + 1] = "─" * (high + 1 - low)
    cells[low], cells[high] = "├", "┤"
    cells[first : third + 1] = "▒" * (third + 1 - first)
    cells[median] = "█"
    return "".join(cells)


def draw_box_figure(drawn: list[BoxPlot]) -> "Figure":
    """Draw the metrics one below the other."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(5.6, 2.9 * len(drawn) + 0.3), layout="constrained")
    grid = canvas.subplots(len(drawn), 1, squeeze=False)
    for (axes,), each in zip(grid, drawn, strict=True):
        stats = [
            {
                "label": f"{box.x:g}",
                "whislo": box.low,
                "q1": box.first,
                "med": box.median,
                "q3": box.third,
                "whishi": box.high,
            }
            for box in each.boxes
        ]
        axes.bxp(stats, positions=[box.x for box in each.boxes], showfliers=False)
        axes.set_xlabel(format_axis_label(each.x_label, {}))
        axes.set_ylabel(format_axis_label(each.metric, {}))
        axes.set_title(each.title, fontsize=7, loc="left")
        axes.grid(axis="y", alpha=0.25, linewidth=0.5)
    return canvas
