"""Which picture each view of a report gets, and curves and boxes ready to be drawn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attncli.records import UNCERTAINTY, Report, Row, Scalar, View
from attncli.render._cells import distinct, shown
from attncli.render.page.both_reports import BOTH, NEW, OLD, compared, named
from attncli.render.page.law_lines import laws_of
from attncli.render.plots.boxes import ACROSS, boxes
from attncli.sanitize import visible

HEADS, CURVES, BOXES, WORDS, TABLE, SAID = "heads", "curves", "boxes", "words", "table", "said"
"""Grids of layers × heads; lines over an axis; quantiles; shaded text; a table alone; the findings, said above."""

BOUNDS = {"log10_residual_norm": "log10_bound"}
"""A metric, and the one that bounds it from above."""

AFTER_LAYERS = "After each layer"
"""The view of numbers of whole layers that no view of the report shows."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric over an axis: everything that its curves are drawn of."""

    metric: str
    unit: str
    axis: str
    measure: str
    series: list[dict[str, Any]]
    """Each a name and points [x, y, spread, uncertainty, note]."""
    levels: list[dict[str, Any]]
    """Numbers that have no place along the axis."""
    gaps: list[list[Any]]
    """Places of numbers that were lost, with the reason."""
    bound: str | None = None
    """The metric of the same axes that this one stays below."""
    beside: list[dict[str, Any]] = field(default_factory=list)
    """Fitted laws, or the curves of an older report, each with the name of its series."""


def views_of(report: Report) -> list[View]:
    """The report's own, and what no other shows: numbers of whole layers, the sides of a comparison."""
    both = [BOTH] if next(compared(report), None) else []
    return [*report.views, *both, *after_layers(report)]


def after_layers(report: Report) -> Iterator[View]:
    told = {name for view in report.views if view.down == "layer" for name in view.metrics}
    names = {row.metric for row in report.rows if set(row.coordinates) == {"layer"}}
    if untold := [name for name in report.metrics if name in names - told]:
        yield View(AFTER_LAYERS, "layer", tuple(untold))


def kind_of(report: Report, view: View) -> str:
    """Told from the view and the rows that it shows."""
    rows = [row for row in report.rows if shown(row, view)]
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


def curves_of(report: Report, view: View) -> list[Panel]:
    """A panel for each metric of the view, then of the others that have the very same axes."""
    if view is BOTH:
        return [panel_of_both(report, found) for found in compared(report)]
    panels = [panel_of(report, view, metric) for metric in view.metrics]
    if view.across is not None:
        panels += [panel_of(report, view, metric) for metric in alongside(report, view)]
    found = [panel for panel in panels if panel.series]
    there = {panel.metric for panel in found}
    return [
        replace(panel, bound=bound) if (bound := BOUNDS.get(panel.metric)) in there else panel
        for panel in found
    ]


def alongside(report: Report, view: View) -> list[str]:
    axes = {frozenset(row.coordinates) for row in report.rows if shown(row, view)}
    found = (row.metric for row in report.rows if frozenset(row.coordinates) in axes)
    names = list(dict.fromkeys(found))
    return [name for name in names if name not in view.metrics]


def panel_of(report: Report, view: View, metric: str) -> Panel:
    own = replace(view, metrics=(metric,))
    rows = highest(shown_rows(report, own), view)
    several = len(distinct(row.variant for row in rows)) > 1
    series: dict[str, list[list[Any]]] = {}
    gaps: dict[float, str] = {}
    for row in rows:
        x = row.axis(view.down)
        if not isinstance(x, int | float):
            continue
        if row.value is None:
            if row.lost:
                gaps.setdefault(x, visible(row.note or ""))
            continue
        series.setdefault(name_of(row, view, several), []).append(point(x, row))
    laws = laws_of(report, metric, [point[0] for points in series.values() for point in points])
    return Panel(
        metric,
        next((row.unit for row in rows), ""),
        view.down,
        view.measure or metric,
        [{"name": name, "points": sorted_by_place(points)} for name, points in series.items()],
        list(levels(report, own)),
        sorted([x, note] for x, note in gaps.items()),
        beside=list(laws),
    )


def panel_of_both(report: Report, found: dict[str, Any]) -> Panel:
    metric, axis = visible(found["metric"]), visible(found["axis"])
    unit = next((row.unit for row in report.rows if row.keys.get("measured") == metric), "")
    old = named(found[OLD], ", old")
    return Panel(metric, unit, axis, metric, named(found[NEW]), [], [], beside=old)


def shown_rows(report: Report, view: View) -> list[Row]:
    return [row for row in report.rows if shown(row, view)]


def sorted_by_place(points: Iterable[list[Any]]) -> list[list[Any]]:
    return sorted(points, key=lambda each: float(each[0]))


def name_of(row: Row, view: View, several: bool) -> str:
    if view.across is not None:
        return visible(str(row.axis(view.across)))
    return visible(str(row.variant)) if several else row.metric


def point(x: Scalar, row: Row) -> list[Any]:
    """Without what is not there at its end."""
    found = [x, row.value, row.spread, row.keys.get(UNCERTAINTY), visible(row.note or "") or None]
    while found[-1] is None:
        found.pop()
    return found


def highest(rows: Sequence[Row], view: View) -> list[Row]:
    """With `last_layer_only` the rows of the highest layer, and those that have none."""
    if not view.last_layer_only:
        return list(rows)
    last = max((row.layer for row in rows if row.layer is not None), default=None)
    return [row for row in rows if row.layer in (None, last)]


def levels(report: Report, view: View) -> Iterator[dict[str, Any]]:
    for row in report.rows:
        alone = set(row.coordinates) == {view.across}
        if view.across and alone and row.metric in view.metrics and row.value is not None:
            yield {"name": visible(str(row.axis(view.across))), "value": row.value}


def boxes_in(report: Report, view: View) -> list[dict[str, Any]]:
    """Place and five quantiles, for each place where all are known."""
    return [box._asdict() for box in boxes(report, view)]
