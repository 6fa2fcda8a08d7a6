"""Curves drawn with characters."""

import itertools
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from attncli.maths.number_format import format_number, format_short_number
from attncli.records import MapPicture, Report
from attncli.render.plots.attention_map_in_terminal import draw_shaded_map
from attncli.render.plots.box_plots import BoxPlot, collect_box_plots, draw_box_lines
from attncli.render.plots.chart_data import (
    Chart,
    collect_charts,
    inverse_symmetric_log,
    needs_symmetric_log_axis,
    symmetric_log,
)
from attncli.sanitize import sanitize_value

MARKS = "●■▲◆○□△◇"
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "white", "bright_black")
DASHES = "╌═┄"
"""Of levels."""
GAP = "×"
"""Mark on the axis for a missing number."""
HEIGHT, WIDEST, MARGIN = 16, 72, 12
WIDEST_MAP = 240
LEFT = 4
"""Lines of a screen that are not a map's: its title, the prompt."""

Canvas = list[list[tuple[str, str]]]


def plot_in_terminal(report: Report) -> "TerminalPlot":
    """The curves, boxes or maps of the report, as wide as the terminal allows."""
    report = sanitize_value(report)
    return TerminalPlot(collect_charts(report), report.pictures, collect_box_plots(report))


class TerminalPlot:
    """Charts, boxes and maps that fit themselves to the console."""

    def __init__(
        self, drawn: Sequence[Chart], pictures: Sequence[MapPicture], boxes: Sequence[BoxPlot]
    ) -> None:
        self.charts = drawn
        self.pictures = pictures
        self.boxes = boxes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for picture in self.pictures:
            yield from draw_shaded_map(
                picture, min(options.max_width, WIDEST_MAP), options.size.height - LEFT
            )
        for boxes in self.boxes:
            yield from draw_box_lines(boxes, options.max_width)
        if not (self.charts or self.pictures or self.boxes):
            yield Text("\nno numbers to plot")
        width = max(20, min(WIDEST, options.max_width - MARGIN - 2))
        for chart in self.charts:
            yield Text(f"\n{chart.title}", style="italic")
            yield from draw_chart(chart, width)


def draw_chart(drawn: Chart, width: int) -> list[Text]:
    """The lines of the plot: canvas with a scale on the left, the x axis, the legend."""
    scale = symmetric_log if needs_symmetric_log_axis(drawn) else float
    heights = [scale(point.y) for point in drawn.points_of_all_series]
    heights += [scale(level) for level in drawn.levels.values()]
    low, high = min(heights), max(heights)
    span = (high - low) or 1.0
    left, right = drawn.axis_range
    places = [
        [
            (
                convert_x_to_column(point.x, drawn, width),
                round((high - scale(point.y)) / span * (HEIGHT - 1)),
            )
            for point in points
        ]
        for points in drawn.series.values()
    ]
    inverse = inverse_symmetric_log if needs_symmetric_log_axis(drawn) else float
    labels = {
        line: format_number(inverse(high - line / (HEIGHT - 1) * span))
        for line in (0, 5, 10, HEIGHT - 1)
    }
    levels = [round((high - scale(level)) / span * (HEIGHT - 1)) for level in drawn.levels.values()]
    canvas = paint_terminal_canvas(places, levels, width)
    lines = [
        Text.assemble((labels.get(index, "").rjust(MARGIN), "dim"), (" │", "dim"), *cells)
        for index, cells in enumerate(canvas)
    ]
    return [*lines, *format_x_axis(drawn, left, right, width), format_legend(drawn)]


def convert_x_to_column(x: float, drawn: Chart, width: int) -> int:
    left, right = drawn.axis_range
    return round((x - left) / ((right - left) or 1.0) * (width - 1))


def paint_terminal_canvas(
    places: list[list[tuple[int, int]]], levels: list[int], width: int
) -> Canvas:
    """Paint levels, dotted lines, then marks; where curves overlap they alternate, so that all are
    visible."""
    canvas: Canvas = [[(" ", "")] * width for _ in range(HEIGHT)]
    for index, line in enumerate(levels):
        canvas[line] = [(DASHES[index % len(DASHES)], "dim")] * width
    owners: dict[tuple[int, int], list[int]] = {}
    for index, cells in reversed(list(enumerate(places))):
        for column, line in interpolate_line_cells(cells):
            canvas[line][column] = ("·", COLOURS[index % len(COLOURS)])
        for cell in cells:
            owners.setdefault(cell, []).insert(0, index)
    columns = sorted({column for column, _ in owners})
    for (column, line), indices in owners.items():
        index = indices[columns.index(column) % len(indices)]
        canvas[line][column] = (MARKS[index % len(MARKS)], COLOURS[index % len(COLOURS)])
    return canvas


def interpolate_line_cells(places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The cells on the straight lines between neighbouring points."""
    for (left, start), (right, end) in itertools.pairwise(sorted(places)):
        steps = max(right - left, abs(end - start), 1)
        for step in range(steps):
            share = step / steps
            yield round(left + share * (right - left)), round(start + share * (end - start))


def format_x_axis(drawn: Chart, left: float, right: float, width: int) -> list[Text]:
    start, end = (format_short_number(x, 6) for x in (left, right))
    name = drawn.x_label.center(width - len(start) - len(end))
    pad = " " * MARGIN
    gaps = {convert_x_to_column(x, drawn, width) for x in drawn.gaps}
    line = "".join(GAP if index in gaps else "─" for index in range(width))
    return [
        Text(f"{pad} └{line}", style="dim"),
        Text(f"{pad}  {start}{name}{end}", style="dim"),
    ]


def format_legend(drawn: Chart) -> Text:
    result = Text(" " * (MARGIN + 2))
    for index, name in enumerate(drawn.series):
        result.append(f"{MARKS[index % len(MARKS)]} ", style=COLOURS[index % len(COLOURS)])
        result.append(f"{name}   ")
    for index, name in enumerate(drawn.levels):
        result.append(f"{DASHES[index % len(DASHES)] * 2} {name}   ", style="dim")
    if drawn.gaps:
        result.append(f"{GAP} no number   ", style="dim")
    return result
