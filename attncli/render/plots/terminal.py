"""Curves drawn with characters."""

import itertools
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from attncli.maths.digits import number
from attncli.records import Picture, Report
from attncli.render.plots.chart import Chart, chart, needs_squeeze, squeeze, unsqueeze
from attncli.render.plots.maps import shaded

MARKS = "●■▲◆○□△◇"
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "white", "bright_black")
HEIGHT, WIDEST, MARGIN = 16, 72, 12

Canvas = list[list[tuple[str, str]]]


def terminal(report: Report) -> "TerminalPlot":
    """The curves or maps of the report, as wide as the terminal allows."""
    return TerminalPlot(chart(report), report.pictures)


class TerminalPlot:
    """A chart and maps that fit themselves to the console."""

    def __init__(self, drawn: Chart | None, pictures: tuple[Picture, ...] = ()) -> None:
        self.chart = drawn
        self.pictures = pictures

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for picture in self.pictures:
            yield from shaded(picture, options.max_width)
        if self.chart is None:
            if not self.pictures:
                yield Text("\nno numbers to plot")
            return
        width = max(20, min(WIDEST, options.max_width - MARGIN - 2))
        yield Text(f"\n{self.chart.title}", style="italic")
        yield from draw(self.chart, width)


def draw(drawn: Chart, width: int) -> list[Text]:
    """The lines of the plot: canvas with a scale on the left, the x axis, the legend."""
    scale = squeeze if needs_squeeze(drawn) else float
    heights = [scale(point.y) for point in drawn.points]
    low, high = min(heights), max(heights)
    span = (high - low) or 1.0
    left = min(point.x for point in drawn.points)
    right = max(point.x for point in drawn.points)
    places = [
        [
            (
                round((point.x - left) / ((right - left) or 1.0) * (width - 1)),
                round((high - scale(point.y)) / span * (HEIGHT - 1)),
            )
            for point in points
        ]
        for points in drawn.series.values()
    ]
    inverse = unsqueeze if needs_squeeze(drawn) else float
    labels = {
        line: number(inverse(high - line / (HEIGHT - 1) * span)) for line in (0, 5, 10, HEIGHT - 1)
    }
    canvas = painted(places, width)
    lines = [canvas_line(labels.get(index, ""), cells) for index, cells in enumerate(canvas)]
    return [*lines, *axis(drawn, left, right, width), legend(drawn)]


def painted(places: list[list[tuple[int, int]]], width: int) -> Canvas:
    """Dotted lines, then the marks; where curves meet, they take turns, so that none is hidden for long."""
    canvas: Canvas = [[(" ", "")] * width for _ in range(HEIGHT)]
    owners: dict[tuple[int, int], list[int]] = {}
    for index, cells in reversed(list(enumerate(places))):
        for column, line in connected(cells):
            canvas[line][column] = ("·", COLOURS[index % len(COLOURS)])
        for cell in cells:
            owners.setdefault(cell, []).insert(0, index)
    columns = sorted({column for column, _ in owners})
    for (column, line), indices in owners.items():
        index = indices[columns.index(column) % len(indices)]
        canvas[line][column] = (MARKS[index % len(MARKS)], COLOURS[index % len(COLOURS)])
    return canvas


def connected(places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The cells on the straight lines between neighbouring points."""
    for (left, start), (right, end) in itertools.pairwise(sorted(places)):
        steps = max(right - left, abs(end - start), 1)
        for step in range(steps):
            share = step / steps
            yield round(left + share * (right - left)), round(start + share * (end - start))


def canvas_line(label: str, cells: list[tuple[str, str]]) -> Text:
    return Text.assemble((label.rjust(MARGIN), "dim"), (" │", "dim"), *cells)


def axis(drawn: Chart, left: float, right: float, width: int) -> list[Text]:
    name = drawn.x_label.center(width - len(f"{left:g}") - len(f"{right:g}"))
    pad = " " * MARGIN
    return [
        Text(pad + " └" + "─" * width, style="dim"),
        Text(f"{pad}  {left:g}{name}{right:g}", style="dim"),
    ]


def legend(drawn: Chart) -> Text:
    result = Text(" " * (MARGIN + 2))
    for index, name in enumerate(drawn.series):
        result.append(f"{MARKS[index % len(MARKS)]} ", style=COLOURS[index % len(COLOURS)])
        result.append(f"{name}   ")
    return result
