"""Which picture each view of a report gets, and curves and boxes ready to be drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attncli.records import UNCERTAINTY, JsonObject, Report, Row, Scalar, View
from attncli.render._table_cells import is_row_in_view
from attncli.render.html_page.comparison_curves import (
    BOTH,
    NEW,
    OLD,
    build_comparison_curves,
    label_curves_of_reports,
)
from attncli.render.html_page.fitted_curves import build_fitted_curves
from attncli.render.plots.box_plots import ACROSS, collect_boxes

HEADS, CURVES, BOXES, WORDS, TABLE, SAID = "heads", "curves", "boxes", "words", "table", "said"
"""Grids of layers × heads; lines over an axis; quantiles; shaded text; a table only; findings,
which are sentences."""

BOUNDS = {"log10_residual_norm": "log10_bound"}
"""A metric, and the one that bounds it from above."""

AFTER_LAYERS = "After each layer"
"""The view of numbers of whole layers that no view of the report shows."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric over an axis: the data of its curves."""

    metric: str
    unit: str
    axis: str
    measure: str
    series: list[JsonObject]
    """Each a name and points [x, y, spread, uncertainty, note]."""
    levels: list[JsonObject]
    """Numbers without a coordinate on the axis."""
    gaps: list[list[object]]
    """Positions of missing numbers, with the reason."""
    bound: str | None = None
    """The metric of the same axes that this one stays below."""
    extra_series: list[JsonObject] = field(default_factory=list)
    """Fitted laws, or the curves of an older report, each with the name of its series."""


def list_report_and_layer_views(report: Report) -> list[View]:
    """The report's own views, and views of numbers that no other shows: of whole layers, of a
    comparison's two sides."""
    both = [BOTH] if next(build_comparison_curves(report), None) else []
    return [*report.views, *both, *build_views_over_layers(report)]


def build_views_over_layers(report: Report) -> Iterator[View]:
    metrics = {name for view in report.views if view.down == "layer" for name in view.metrics}
    names = {row.metric for row in report.rows if set(row.coordinates) == {"layer"}}
    if untold := [name for name in report.metrics if name in names - metrics]:
        yield View(AFTER_LAYERS, "layer", tuple(untold))


def choose_plot_kind(report: Report, view: View) -> str:
    """Choose the plot from the view and its rows."""
    rows = [row for row in report.rows if is_row_in_view(row, view)]
    if view.findings:
        return SAID
    if view is BOTH:
        return CURVES
    if view.pair:  # what is worth reading there are the words
        return TABLE
    of_heads = any(row.head is not None and row.layer is not None for row in rows)
    if of_heads and (view.across == "head" or view.down == "layer.head"):
        return HEADS
    if view.across == ACROSS:
        return BOXES
    if view.names and view.down == "position":
        return WORDS
    places = {row.axis(view.down) for row in rows if row.value is not None}
    if len(places) > 1 and all(isinstance(place, int | float) for place in places):
        return CURVES
    return TABLE


def build_plot_panels(report: Report, view: View) -> list[Panel]:
    """A panel for each metric of the view, then of the others that have the very same axes."""
    if view is BOTH:
        return [build_comparison_panel(report, found) for found in build_comparison_curves(report)]
    panels = [build_plot_panel(report, view, metric) for metric in view.metrics]
    if view.across is not None:
        panels += [
            build_plot_panel(report, view, metric)
            for metric in list_metrics_with_same_axes(report, view)
        ]
    found = [panel for panel in panels if panel.series]
    there = {panel.metric for panel in found}
    return [
        replace(panel, bound=bound) if (bound := BOUNDS.get(panel.metric)) in there else panel
        for panel in found
    ]


def list_metrics_with_same_axes(report: Report, view: View) -> list[str]:
    axes = {frozenset(row.coordinates) for row in report.rows if is_row_in_view(row, view)}
    found = (row.metric for row in report.rows if frozenset(row.coordinates) in axes)
    names = list(dict.fromkeys(found))
    return [name for name in names if name not in view.metrics]


def build_plot_panel(report: Report, view: View, metric: str) -> Panel:
    own = replace(view, metrics=(metric,))
    rows = select_rows_of_highest_layer(select_rows_in_view(report, own), view)
    several = len({row.variant for row in rows}) > 1
    series: dict[str, list[list[Any]]] = {}
    gaps: dict[float, str] = {}
    for row in rows:
        x = row.axis(view.down)
        if not isinstance(x, int | float):
            continue
        if row.value is None:
            if row.is_missing:
                gaps.setdefault(x, row.note or "")
            continue
        series.setdefault(name_curve_of_row(row, view, several), []).append(
            build_curve_point(x, row)
        )
    laws = build_fitted_curves(
        report, metric, [point[0] for points in series.values() for point in points]
    )
    return Panel(
        metric,
        next((row.unit for row in rows), ""),
        view.down,
        view.measure or metric,
        [
            {"name": name, "points": sorted(points, key=lambda each: float(each[0]))}
            for name, points in series.items()
        ],
        list(build_reference_lines(report, own)),
        sorted([x, note] for x, note in gaps.items()),
        extra_series=list(laws),
    )


def build_comparison_panel(report: Report, comparison: JsonObject) -> Panel:
    metric, axis = comparison["metric"], comparison["axis"]
    unit = next((row.unit for row in report.rows if row.keys.get("measured") == metric), "")
    old = label_curves_of_reports(comparison[OLD], ", old")
    return Panel(
        metric,
        unit,
        axis,
        metric,
        label_curves_of_reports(comparison[NEW]),
        [],
        [],
        extra_series=old,
    )


def select_rows_in_view(report: Report, view: View) -> list[Row]:
    return [row for row in report.rows if is_row_in_view(row, view)]


def name_curve_of_row(row: Row, view: View, several: bool) -> str:
    if view.across is not None:
        return str(row.axis(view.across))
    return str(row.variant) if several else row.metric


def build_curve_point(x: Scalar, row: Row) -> list[Any]:
    """A point of a curve; trailing missing values are omitted."""
    found = [x, row.value, row.spread, row.keys.get(UNCERTAINTY), row.note or None]
    while found[-1] is None:
        found.pop()
    return found


def select_rows_of_highest_layer(rows: Sequence[Row], view: View) -> list[Row]:
    """With `last_layer_only`, the rows of the highest layer, and those without a layer."""
    if not view.last_layer_only:
        return list(rows)
    last = max((row.layer for row in rows if row.layer is not None), default=None)
    return [row for row in rows if row.layer in (None, last)]


def build_reference_lines(report: Report, view: View) -> Iterator[JsonObject]:
    for row in report.rows:
        alone = set(row.coordinates) == {view.across}
        if view.across and alone and row.metric in view.metrics and row.value is not None:
            yield {"name": str(row.axis(view.across)), "value": row.value}


def build_box_plots(report: Report, view: View) -> list[JsonObject]:
    """Position and five quantiles, where all five are known."""
    return [box._asdict() for box in collect_boxes(report, view)]
