"""Curves in a figure: a panel for each metric, one legend for all."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attncli.maths.number_format import format_number
from attncli.records import Report
from attncli.render.plots.axis_labels_and_captions import format_axis_label
from attncli.render.plots.chart_data import (
    Chart,
    ChartPoint,
    collect_charts,
    is_geometric_sequence,
    is_log_axis_suitable,
    needs_symmetric_log_axis,
)
from attncli.render.plots.line_styles import LineStyle, assign_line_styles, format_series_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SINGLE, PANEL = (5.6, 3.7), (3.5, 2.7)
"""Inches of the only panel, and of one of several."""
MOST_PANELS = 12
INSIDE = 6
"""Up to this many lines have their names inside a single panel; more have them next to it."""
BAND = 5
"""From this many points on, standard deviations are a band; for fewer they are bars."""
LEVEL_DASHES = ((0, (5, 2)), (0, (1, 1)), (0, (5, 2, 1, 2)))


def draw_curve_figure(report: Report) -> "Figure":
    """Draw the curves: one column of panels for one or two metrics, else two or three."""
    from matplotlib.figure import Figure  # not pyplot: no global state, no display

    drawn = collect_charts(report)[:MOST_PANELS]
    across = 1 if len(drawn) < 2 else 2 if len(drawn) < 5 else 3
    lines = -(-max(1, len(drawn)) // across)
    names = list(dict.fromkeys(name for one in drawn for name in one.series))
    at_side = len(drawn) > 1 or len(names) > INSIDE
    width, height = SINGLE if across == 1 else PANEL
    more = compute_legend_width(names) if at_side and len(drawn) % across == 0 else 0.0
    canvas = Figure(figsize=(width * across + more, height * lines), layout="constrained")
    grid = canvas.subplots(lines, across, squeeze=False)
    styles = assign_line_styles(names)
    panels = [axes for line in grid for axes in line]
    for index, (axes, one) in enumerate(zip(panels, drawn, strict=False)):
        draw_curve_panel(axes, one, styles)
        axes.set_title(format_panel_title(one, index, len(drawn)), loc="left")
    free = panels[max(1, len(drawn)) :]
    for axes in free:
        axes.axis("off")
    draw_legend(canvas, panels[: len(drawn)], at_side, free)
    return canvas


def compute_legend_width(names: Sequence[str]) -> float:
    """Width of the legend next to the panels, in inches."""
    return 0.7 + 0.062 * min(40, max(map(len, names), default=0))


def format_panel_title(one: Chart, index: int, count: int) -> str:
    """A letter where there are several panels, and what the axes do not show already."""
    letter = f"({chr(ord('a') + index)})  " if count > 1 else ""
    words = (
        one.title.partition("; ")[0]
        .partition(", mean ±")[0]
        .replace(one.metric, format_axis_label(one.metric, {}))
    )
    words = words.removesuffix(f" after each {one.x_label}")
    plain = words in (format_axis_label(one.metric, {}), one.metric)
    return (
        letter
        if plain
        else letter + textwrap.shorten(words, 90 if count == 1 else 52, placeholder=" …")
    )


def draw_curve_panel(axes: "Axes", drawn: Chart, styles: Mapping[str, LineStyle]) -> None:
    """Draw reference levels, bounds and fitted laws, then the numbers themselves."""
    set_axis_scales(axes, drawn)
    for index, (name, level) in enumerate(drawn.levels.items()):
        dash = LEVEL_DASHES[index % len(LEVEL_DASHES)]
        axes.axhline(level, color="0.35", linewidth=1.1, linestyle=dash, label=name, zorder=1)
    for name, points in drawn.series.items():
        draw_curve(axes, points, styles[name], format_legend_label(drawn, name))
    limits = axes.get_ylim()
    for name, points in drawn.bounds.items():
        draw_bound_line(axes, drawn, points, styles.get(name), name, limits)
    for name, law in drawn.laws.items():
        low, high = min(p.x for p in drawn.series[name]), max(p.x for p in drawn.series[name])
        xs, ys = zip(*law.sample_curve_points(low, high), strict=True)
        shown = (
            f"{format_series_name(name)}: d = {law.formula_text}"
            if len(drawn.laws) > 1
            else f"d = {law.formula_text}"
        )
        axes.plot(
            xs,
            ys,
            color=styles[name].colour,
            linewidth=1.0,
            linestyle=(0, (1, 1.2)),
            label=shown,
            zorder=2,
        )
    if drawn.gaps:
        axes.plot(
            drawn.gaps,
            [0.03] * len(drawn.gaps),
            transform=axes.get_xaxis_transform(),
            marker="x",
            markersize=4,
            linestyle="",
            color="0.35",
            label="no number",
        )
    axes.set_xlabel(drawn.x_words or drawn.x_label)
    axes.set_ylabel(drawn.unit_words or drawn.metric)
    axes.grid(alpha=0.25, linewidth=0.5)


def format_legend_label(drawn: Chart, name: str) -> str:
    """A line's name, and where its numbers end; empty for a single line without a name."""
    since = drawn.lost_from.get(name)
    unknown = "" if since is None else f", not known from {drawn.x_label} {since:g} on"
    return "" if name == "None" else f"{format_series_name(name)}{unknown}"


def draw_curve(axes: Any, points: Sequence[ChartPoint], look: LineStyle, name: str) -> None:
    """Draw a filled marker for a number, an open one for a questioned one; its standard deviation
    behind it."""
    points = sorted(points, key=lambda point: point.x)
    xs, ys = [point.x for point in points], [point.y for point in points]
    spreads = [point.spread for point in points]
    if any(spreads):
        low = [y - by for y, by in zip(ys, spreads, strict=True)]
        high = [y + by for y, by in zip(ys, spreads, strict=True)]
        if len(points) >= BAND:
            axes.fill_between(xs, low, high, color=look.colour, alpha=0.16, linewidth=0)
        else:
            axes.vlines(xs, low, high, color=look.colour, linewidth=1.0, alpha=0.7)
    style = {"color": look.colour, "marker": look.marker, "markersize": 3.4 * look.weight}
    axes.plot(xs, ys, linestyle=look.dash, linewidth=1.1 * look.weight, label=name, **style)
    open_ones = [point for point in points if point.doubtful]
    if open_ones:
        axes.plot(
            [point.x for point in open_ones],
            [point.y for point in open_ones],
            linestyle="",
            markerfacecolor="white",
            zorder=4,
            **style,
        )


def draw_bound_line(
    axes: "Axes",
    drawn: Chart,
    points: Sequence[ChartPoint],
    look: LineStyle | None,
    name: str,
    limits: tuple[float, float],
) -> None:
    """Draw the bound as a line if it lies within the range of the numbers; else mention it in the
    legend."""
    inside = [point for point in points if limits[0] <= point.y <= limits[1]]
    if name not in drawn.series or look is None:
        return
    shown = f"bound of {format_series_name(name)}" + (
        "" if inside else f": {format_number(points[-1].y)} at the end"
    )
    xs, ys = zip(*((point.x, point.y) for point in points), strict=True)
    drawn_here = (xs, ys) if inside else ([], [])
    axes.plot(
        *drawn_here, color=look.colour, linewidth=1.0, linestyle=(0, (5, 1, 1, 1)), label=shown
    )
    axes.set_ylim(limits)


def set_axis_scales(axes: "Axes", drawn: Chart) -> None:
    """Use log axes where a sweep doubles and where numbers span orders of magnitude."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

    if is_geometric_sequence(drawn):
        places = sorted({point.x for point in drawn.points_of_all_series})
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.xaxis.set_minor_locator(NullLocator())
    elif all(point.x.is_integer() for point in drawn.points_of_all_series):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if needs_symmetric_log_axis(drawn):
        axes.set_yscale("symlog", linthresh=1.0)
        axes.yaxis.set_major_formatter(
            FuncFormatter(
                lambda value, _: (
                    format_number(value) if value % 1 else f"{value:,.0f}".replace("-", "−")
                )
            )
        )
    elif is_log_axis_suitable(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def draw_legend(
    canvas: "Figure", panels: "Sequence[Axes]", at_side: bool, free: "Sequence[Axes]"
) -> None:
    """Draw a legend: what all panels share is named once, in a free space."""
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    if not handles:
        return
    if free:
        free[0].legend(handles.values(), handles.keys(), loc="upper left", frameon=False)
    elif at_side:
        canvas.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False)
    else:
        panels[0].legend(handles.values(), handles.keys(), frameon=False)
