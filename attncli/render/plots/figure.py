"""Curves as a PNG, SVG or PDF file, with matplotlib (the `plot` extra)."""

import textwrap
from pathlib import Path
from typing import Any

from attncli.records import Report
from attncli.render.plots.boxes import box_figure, boxes_of
from attncli.render.plots.chart import Chart, charts, needs_squeeze
from attncli.render.plots.heads import head_figure, head_grids
from attncli.render.plots.maps import scales_of
from attncli.visible import all_visible

MARKERS = "os^Dvph*"
MOST_PICTURES = 6
METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""No date inside: the same numbers give the same bytes."""


def figure(report: Report, path: Path) -> None:
    """Draw the report's maps, or its curves with their spread, into a file whose ending names the format."""
    import matplotlib

    report = all_visible(report)
    with matplotlib.rc_context({"svg.hashsalt": "attn", "text.parse_math": False}):
        if grids := head_grids(report):
            canvas = head_figure(report, grids)
        elif report.pictures:
            canvas = map_figure(report)
        elif boxes := boxes_of(report):
            canvas = box_figure(report, boxes)
        else:
            canvas = curve_figure(report)
        canvas.savefig(path, dpi=150, metadata=METADATA[path.suffix.lower()])


def curve_figure(report: Report) -> Any:
    """The charts one below the other; a single one under the headline, several each under its own title."""
    from matplotlib.figure import Figure  # not pyplot: no global state, no display

    drawn = charts(report)
    canvas = Figure(figsize=(7.2, 4.6 * max(1, len(drawn))), layout="constrained")
    grid = canvas.subplots(max(1, len(drawn)), squeeze=False)
    for axes, one in zip(grid[:, 0], drawn, strict=False):
        plot(axes, one)
        axes.set_title(one.title, fontsize=8, loc="left")
    if len(drawn) > 1:
        canvas.suptitle(textwrap.fill(report.headline, 110), fontsize=8)
    else:
        grid[0, 0].set_title(report.headline, fontsize=8, loc="left", wrap=True)
    return canvas


def map_figure(report: Report) -> Any:
    """A line of maps for every picture: the maps on one scale, the error on its own."""
    from matplotlib.figure import Figure

    pictures = report.pictures[:MOST_PICTURES]
    across = max(len(picture.panels) for picture in pictures)
    canvas = Figure(figsize=(3.1 * across, 2.9 * len(pictures) + 0.5), layout="constrained")
    grid = canvas.subplots(len(pictures), across, squeeze=False)
    for line, picture in zip(grid, pictures, strict=True):
        scales = scales_of(picture)
        for axes, (name, cells) in zip(line, picture.panels.items(), strict=True):
            colours = "magma" if name == list(picture.panels)[-1] else "viridis"
            top = scales[name] or 1.0
            image = axes.imshow(cells, vmin=0.0, vmax=top, cmap=colours, interpolation="nearest")
            axes.set_title(name, fontsize=8)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_xlabel("key", fontsize=7)
            canvas.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=6)
        line[0].set_ylabel(f"{picture.title}\nquery", fontsize=7)
    left_out = len(report.pictures) - len(pictures)
    more = f" ({left_out} more patterns are not drawn)" if left_out else ""
    canvas.suptitle(textwrap.fill(report.headline + more, 120), fontsize=8)
    return canvas


def plot(axes: object, drawn: Chart) -> None:
    for style, (name, level) in zip(("--", ":", "-.") * 4, drawn.levels.items(), strict=False):
        axes.axhline(level, color="0.4", linewidth=1.2, linestyle=style, label=name)  # type: ignore[attr-defined]
    for marker, (name, points) in zip(MARKERS * 4, drawn.series.items(), strict=False):
        axes.errorbar(  # type: ignore[attr-defined]
            [point.x for point in points],
            [point.y for point in points],
            yerr=[point.spread for point in points],
            marker=marker,
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=name,
        )
    if drawn.gaps:
        axes.plot(  # type: ignore[attr-defined]
            drawn.gaps,
            [0.03] * len(drawn.gaps),
            transform=axes.get_xaxis_transform(),  # type: ignore[attr-defined]
            marker="x",
            linestyle="",
            color="0.2",
            label="no number",
        )
    if needs_squeeze(drawn):
        axes.set_yscale("symlog", linthresh=1.0)  # type: ignore[attr-defined]
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # type: ignore[attr-defined]  # no formulas: `parse_math` is off
    axes.set_xlabel(drawn.x_label)  # type: ignore[attr-defined]
    axes.set_ylabel(drawn.metric)  # type: ignore[attr-defined]
    axes.grid(alpha=0.3)  # type: ignore[attr-defined]
    axes.legend(frameon=bool(drawn.levels), edgecolor="none", framealpha=0.9)  # type: ignore[attr-defined]
