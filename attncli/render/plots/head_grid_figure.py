"""Grids of layers × heads and maps of single heads, with matplotlib."""

import math
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.records import MapPicture, Report, View
from attncli.render._table_cells import is_row_in_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MAPS = 6
WIDTH, LARGEST_MAP = 7.2, 5.0
"""Inches of the whole figure, and of a map's side."""
SMALLEST_LETTERS, LARGEST_LETTERS = 3.0, 7.0
"""Points."""
ACROSS = 3
MOST_LABELS = 48
"""Most token names along a map."""


class HeadGrid(NamedTuple):
    """One metric over layers and heads."""

    title: str
    layers: list[int]
    heads: list[int]
    cells: list[list[float]]
    """[layer][head]; nan where there is no number."""
    marks: list[list[str]]
    """Letters on the cells."""


def collect_head_grids(report: Report) -> list[HeadGrid]:
    """Every view of the report that spreads heads over layers."""
    grids = (build_head_grid(report, view) for view in report.views if view.across == "head")
    return [grid for grid in grids if grid.layers]


def build_head_grid(report: Report, view: View) -> HeadGrid:
    rows = {
        (row.layer, row.head): row
        for row in report.rows
        if is_row_in_view(row, view) and row.layer is not None and row.head is not None
    }
    layers = sorted({layer for layer, _ in rows if layer is not None})
    heads = sorted({head for _, head in rows if head is not None})
    found = [[rows.get((layer, head)) for head in heads] for layer in layers]
    return HeadGrid(
        view.title,
        layers,
        heads,
        [
            [math.nan if row is None or row.value is None else row.value for row in line]
            for line in found
        ],
        [
            [str(row.keys.get(view.heat, "")) if row and view.heat else "" for row in line]
            for line in found
        ],
    )


BRIGHT = 0.6
"""Position in the colormap above which black letters are more legible than white ones."""


def draw_head_figure(report: Report, grids: list[HeadGrid]) -> "Figure":
    """Draw the grids one below the other, then the maps of chosen heads."""
    from matplotlib.figure import Figure

    pictures = report.pictures[:MOST_MAPS]
    across = max(1, min(ACROSS, len(pictures)))
    lines = -(-len(pictures) // across)
    side = min(WIDTH / across, LARGEST_MAP)
    heights = [0.7 + 0.2 * len(grid.layers) for grid in grids] + [side] * lines
    canvas = Figure(figsize=(WIDTH, sum(heights) + 0.4), layout="constrained")
    parts = canvas.add_gridspec(len(heights), across, height_ratios=heights)
    for line, grid in enumerate(grids):
        draw_head_grid(canvas, canvas.add_subplot(parts[line, :]), grid)
    for index, picture in enumerate(pictures):
        line, column = divmod(index, across)
        draw_attention_map(
            canvas, canvas.add_subplot(parts[len(grids) + line, column]), picture, side
        )
    return canvas


def draw_head_grid(canvas: Any, axes: Any, grid: HeadGrid) -> None:
    image = axes.imshow(grid.cells, cmap="viridis", aspect="auto", interpolation="nearest")
    canvas.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=6)
    axes.set_title(textwrap.fill(grid.title, 110), fontsize=7, loc="left")
    axes.set_xticks(range(len(grid.heads)), grid.heads, fontsize=6)
    axes.set_yticks(range(len(grid.layers)), grid.layers, fontsize=6)
    axes.set_xlabel("head", fontsize=7)
    axes.set_ylabel("layer", fontsize=7)
    for line, marks in enumerate(grid.marks):
        for column, mark in enumerate(marks):
            cell = image.norm(grid.cells[line][column])
            color = "white" if cell < BRIGHT else "black"  # a cell without a number is white
            axes.text(column, line, mark, ha="center", va="center", fontsize=7, color=color)


def draw_attention_map(canvas: "Figure", axes: "Axes", picture: MapPicture, side: float) -> None:
    """Draw a map, queries down and keys across, with token names where there are few enough to read."""
    (cells,) = picture.panels.values()
    image = axes.imshow(cells, vmin=0.0, cmap="Blues", interpolation="nearest")
    canvas.colorbar(image, ax=axes, shrink=0.7, fraction=0.05).ax.tick_params(labelsize=6)
    axes.set_title(picture.title, fontsize=8)
    axes.spines[:].set_visible(True)
    axes.set_xlabel("key", fontsize=7)
    axes.set_ylabel("query", fontsize=7)
    if 0 < len(picture.labels) <= MOST_LABELS:
        words = [label.replace("$", r"\$") for label in picture.labels]
        places = range(len(words))
        room = 0.6 * 72.0 * side / len(words)
        size = max(SMALLEST_LETTERS, min(LARGEST_LETTERS, room))
        axes.set_xticks(places, words, fontsize=size, rotation=90)
        axes.set_yticks(places, words, fontsize=size)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
