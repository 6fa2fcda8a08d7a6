"""A report as a PNG, SVG or PDF file, with matplotlib (the `plot` extra): fit for a paper as it is."""

import logging
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.records import Report
from attncli.render.plots.attention_map_in_terminal import colour_scale_of_panels
from attncli.render.plots.axis_labels_and_captions import format_figure_caption
from attncli.render.plots.box_plots import collect_box_plots, draw_box_figure
from attncli.render.plots.chart_data import collect_charts
from attncli.render.plots.curve_figure import draw_curve_figure
from attncli.render.plots.head_grid_figure import collect_head_grids, draw_head_figure
from attncli.render.plots.point_trajectories import draw_point_track_figure
from attncli.sanitize import sanitize_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PICTURES = 6
METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""No date inside: the same numbers give the same bytes."""
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "attn",
    "svg.fonttype": "none",  # letters stay letters, which can be searched and set in a paper's own font
    "pdf.fonttype": 42,  # TrueType, embedded: some journals refuse matplotlib's type 3
    "ps.fonttype": 42,
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.unicode_minus": True,
}
DOTS = 300
"""Of an inch, in PNG."""
LETTERS = 21
"""Of a caption to an inch."""

NOTHING = "the report holds nothing that a figure is drawn of"

Size = tuple[float, float]


def has_figure(report: Report) -> bool:
    """Whether there is anything to draw, without importing matplotlib."""
    return bool(
        collect_head_grids(report)
        or report.pictures
        or report.tracks
        or collect_box_plots(report)
        or collect_charts(report)
    )


def save_figure(report: Report, path: Path, size: Size | None = None, dots: int = DOTS) -> None:
    """Draw the report's maps, or its curves with their spread, into a file whose ending names the format.

    `size`: inches, width and height; else what the panels need. `dots`: of an inch, in PNG.
    """
    report = sanitize_value(report)
    with import_matplotlib_headless() as matplotlib, matplotlib.rc_context(STYLE):
        canvas = draw_figure_with_caption(report, size)
        metadata = {**METADATA[path.suffix.lower()], "Title": report.headline}
        canvas.savefig(path, dpi=dots, metadata=metadata)


def build_figure(report: Report, size: Size | None = None) -> "Figure":
    """The same as a matplotlib figure without a window: for a notebook, or for further drawing."""
    with import_matplotlib_headless() as matplotlib, matplotlib.rc_context(STYLE):
        return draw_figure_with_caption(sanitize_value(report), size)


def draw_figure_with_caption(report: Report, size: Size | None) -> "Figure":
    """Draw the figure with its caption."""
    canvas = draw_report_figure(report)
    if size is not None:
        canvas.set_size_inches(*size)
    draw_caption(canvas, format_figure_caption(report))
    return canvas


@contextmanager
def import_matplotlib_headless() -> Iterator[Any]:
    """Import matplotlib without its display settings, since no window opens, and with a writable
    cache folder."""
    log = logging.getLogger("matplotlib")
    before, own = log.level, os.environ.get("MPLBACKEND")
    log.setLevel(logging.ERROR)
    try:
        import matplotlib
    except ValueError:  # of a window that it knows nothing of; what it has begun with is begun anew
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            del sys.modules[name]
        os.environ["MPLBACKEND"] = "agg"
        import matplotlib
    try:
        yield matplotlib
    finally:
        log.setLevel(before)
        if own is not None:
            os.environ["MPLBACKEND"] = own
        else:
            os.environ.pop("MPLBACKEND", None)


def draw_report_figure(report: Report) -> "Figure":
    """Draw what the report has: grids of heads, else maps, else tracks in the plane, else boxes, else curves."""
    if grids := collect_head_grids(report):
        return draw_head_figure(report, grids)
    if report.pictures:
        return draw_map_figure(report)
    if report.tracks:
        return draw_point_track_figure(report)
    if boxes := collect_box_plots(report):
        return draw_box_figure(boxes)
    return draw_curve_figure(report)


def draw_caption(canvas: "Figure", text: str) -> None:
    """Draw the caption in as many lines as it needs."""
    if text:
        width = int(LETTERS * canvas.get_size_inches()[0])
        canvas.supxlabel(textwrap.fill(text, width), fontsize=6, color="0.35", x=0.01, ha="left")


def draw_map_figure(report: Report) -> "Figure":
    """Draw a line of maps for every fit: the maps on one scale, the error on its own."""
    from matplotlib.figure import Figure

    pictures = report.pictures[:MOST_PICTURES]
    across = max(len(picture.panels) for picture in pictures)
    canvas = Figure(figsize=(2.5 * across, 2.3 * len(pictures) + 0.4), layout="constrained")
    grid = canvas.subplots(len(pictures), across, squeeze=False)
    for line, picture in zip(grid, pictures, strict=True):
        scales = colour_scale_of_panels(picture)
        for axes, (name, cells) in zip(line, picture.panels.items(), strict=True):
            colours = "magma_r" if name == list(picture.panels)[-1] else "Blues"
            top = scales[name] or 1.0
            image = axes.imshow(cells, vmin=0.0, vmax=top, cmap=colours, interpolation="nearest")
            axes.set_title(name)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_xlabel("key")
            canvas.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=6)
        line[0].set_ylabel(f"{picture.title}\nquery")
    left_out = len(report.pictures) - len(pictures)
    if left_out:
        canvas.suptitle(f"{left_out} more patterns are not drawn", fontsize=7)
    return canvas
