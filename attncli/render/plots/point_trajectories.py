"""Tracks of points in the plane: the predictions of a recurrence, with the taught ones."""

from typing import TYPE_CHECKING

from attncli.records import PointTrack, Report
from attncli.render.plots.line_styles import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE = 2.0
"""Inches of a panel."""
MARGIN = 1.08
FURTHEST = 4.0
"""Radii beyond which a track leaves its panel."""
TAUGHT = "0.75"


def draw_point_track_figure(report: Report) -> "Figure":
    """A line of panels for every row of tracks; in each the taught arcs in grey, a colour for each point."""
    from matplotlib.figure import Figure

    rows = list(dict.fromkeys(track.row for track in report.tracks))
    columns = list(dict.fromkeys(track.column for track in report.tracks))
    size = (SIDE * len(columns) + 0.4, SIDE * len(rows) + 0.7)
    canvas = Figure(figsize=size, layout="constrained")
    grid = canvas.subplots(len(rows), len(columns), squeeze=False)
    for track in report.tracks:
        axes = grid[rows.index(track.row)][columns.index(track.column)]
        draw_point_track(axes, track)
        if track.row == rows[0]:
            axes.set_title(track.column)
        if track.column == columns[0]:
            axes.set_ylabel(track.row)
    canvas.suptitle("The first seed, from o to x; grey: as taught", fontsize=7)
    return canvas


def draw_point_track(axes: "Axes", track: PointTrack) -> None:
    """Draw both points from their first position to their last."""
    for way in track.taught:
        axes.plot(*zip(*way, strict=True), color=TAUGHT, linewidth=2.5, solid_capstyle="butt")
    for colour, way in zip(COLOURS, track.ways, strict=False):
        x, y = zip(*way, strict=True)
        axes.plot(x, y, color=colour, linewidth=0.7, marker=".", markersize=1.5)
        axes.plot(x[:1], y[:1], color=colour, marker="o", markersize=4, linestyle="")
        axes.plot(x[-1:], y[-1:], color=colour, marker="x", markersize=6, linestyle="")
    taught = max(abs(number) for way in track.taught for place in way for number in place)
    own = max(abs(number) for way in track.ways for place in way for number in place)
    limit = MARGIN * min(max(taught, own), FURTHEST * taught)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xticks=[], yticks=[])
    axes.grid(visible=False)
