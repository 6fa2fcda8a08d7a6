"""What both plots draw: one metric over an axis, from the first view of a report that has one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli.records import Report, Row, View
from attncli.render._cells import stands_at
from attncli.render.plots.boxes import ACROSS

NO_CURVES = ("head", ACROSS)
"""What spreads a metric into a grid, or into boxes."""


@dataclass(frozen=True, slots=True)
class ChartPoint:
    x: float
    y: float
    spread: float


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    metric: str
    x_label: str
    series: Mapping[str, list[ChartPoint]]
    levels: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the same metric that have no place along the axis: what the curves are held against."""
    gaps: tuple[float, ...] = ()
    """Places where a number was lost and no curve has one."""

    @property
    def points(self) -> list[ChartPoint]:
        return [point for points in self.series.values() for point in points]

    @property
    def ends(self) -> tuple[float, float]:
        """Of the axis: gaps count too, or a curve would seem to end well where its last item has failed."""
        places = [*(point.x for point in self.points), *self.gaps]
        return min(places), max(places)


def chart(report: Report) -> Chart | None:
    """A curve for each place across, else one of the first column; None where the report has no numbers to draw."""
    return next(iter(charts(report)), None)


def charts(report: Report) -> list[Chart]:
    """The first view's, and those of the views that show the same at other places."""
    views = [view for view in report.views if view.across not in NO_CURVES]
    first = next(
        (view for view in views if view.across), next((v for v in views if v.metrics), None)
    )
    if first is None:
        return []
    drawn = (chart_of(report, view) for view in views if alike(view, first))
    return [one for one in drawn if one is not None]


def alike(view: View, first: View) -> bool:
    """Whether it has the same curves, of other rows."""
    elsewhere = replace(view, title=first.title, where=first.where)
    return view is first or (view.across is not None and elsewhere == first)


def chart_of(report: Report, view: View) -> Chart | None:
    last = max((row.layer for row in report.rows if row.layer is not None), default=None)
    series: dict[str, list[ChartPoint]] = {}
    levels: dict[str, float] = {}
    for row in report.rows:
        x = row.axis(view.down)
        early = view.last_layer_only and row.layer != last
        if row.value is None or early or not drawn_in(view, row):
            continue
        name = str(row.axis(view.across or "variant"))
        if isinstance(x, int | float):
            point = ChartPoint(float(x), row.value, row.spread or 0.0)
            series.setdefault(name, []).append(point)
        elif set(row.coordinates) == {view.across}:
            levels[name] = row.value
    title = view.title if view.across else view.metrics[0]
    named = view.measure or view.metrics[0]
    gaps = gaps_of(report, view, series)
    return Chart(title, named, view.down, series, levels, gaps) if series else None


def gaps_of(
    report: Report, view: View, series: Mapping[str, Sequence[ChartPoint]]
) -> tuple[float, ...]:
    known = {point.x for points in series.values() for point in points}
    lost = [row.axis(view.down) for row in report.rows if row.lost and drawn_in(view, row)]
    places = {float(x) for x in lost if isinstance(x, int | float)}
    return tuple(sorted(places - known))


def drawn_in(view: View, row: Row) -> bool:
    """Whether the view's plot has this row, if it has a number."""
    metrics = view.metrics if view.across else view.metrics[:1]
    lowest = -math.inf if view.lowest_drawn is None else view.lowest_drawn
    deep = row.value is not None and row.value < lowest
    here = view.across is None or all(
        stands_at(row, axis, place) for axis, place in view.where.items()
    )
    return row.metric in metrics and here and not deep


def squeeze(value: float) -> float:
    """sign(v) log10(1 + |v|): near 0 linear, far out logarithmic, so that -0.3 and -170000 share an axis."""
    return math.copysign(math.log10(1.0 + abs(value)), value)


def unsqueeze(value: float) -> float:
    return math.copysign(10.0 ** abs(value) - 1.0, value)


def needs_squeeze(chart: Chart) -> bool:
    """Curves that span more than two decades of values need the squeezed axis."""
    return max(abs(point.y) for point in chart.points) > 100.0
