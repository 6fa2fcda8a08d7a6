"""Data of both plots, in files and in the terminal: metrics over an axis, from the views of a
report."""

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli.records import UNCERTAINTY, Report, Row, View
from attncli.render._table_cells import does_row_have_axis_value
from attncli.render.plots.axis_labels_and_captions import format_axis_label
from attncli.render.plots.box_plots import ACROSS
from attncli.render.plots.fitted_curves import FittedCurve, find_best_fitted_law

NO_CURVES = ("head", ACROSS)
"""Axes of views that are grids or boxes."""


@dataclass(frozen=True, slots=True)
class ChartPoint:
    x: float
    y: float
    spread: float
    doubtful: bool = False
    """Whether a note questions the number: not converged, some seeds missing, or near the rounding
    error."""


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    metric: str
    x_label: str
    series: Mapping[str, list[ChartPoint]]
    levels: Mapping[str, float] = field(default_factory=dict)
    """Reference values of the same metric without a coordinate on the axis."""
    gaps: tuple[float, ...] = ()
    """Positions where a number is missing and no curve has one."""
    bounds: Mapping[str, list[ChartPoint]] = field(default_factory=dict)
    """The theorem's bound for each series."""
    laws: Mapping[str, FittedCurve] = field(default_factory=dict)
    """The law fitted to each series."""
    lost_from: Mapping[str, float] = field(default_factory=dict)
    """The position from which on a series has no numbers."""
    unit_words: str = ""
    """The metric as an axis shows it, where that is not its name."""
    x_words: str = ""

    @property
    def points_of_all_series(self) -> list[ChartPoint]:
        return [point for points in self.series.values() for point in points]

    @property
    def axis_range(self) -> tuple[float, float]:
        """Of the axis: gaps count too, or a curve would seem to end well where its last item has failed."""
        places = [*(point.x for point in self.points_of_all_series), *self.gaps]
        return min(places), max(places)


def collect_first_chart(report: Report) -> Chart | None:
    """The first chart, with a curve for each column; None where the report has no numbers to draw."""
    return next(iter(collect_charts(report)), None)


def collect_charts(report: Report) -> list[Chart]:
    """One chart for each requested metric, and for each location where it is shown."""
    views = [view for view in report.views if view.across not in NO_CURVES and view.metrics]
    spread = [view for view in views if view.across]
    alone = [replace(view, metrics=(name,)) for view in views for name in view.metrics]
    drawn = (build_chart(report, view) for view in spread or alone)
    return [one for one in drawn if one is not None]


def build_chart(report: Report, view: View) -> Chart | None:
    last = max((row.layer for row in report.rows if row.layer is not None), default=None)
    series: dict[str, list[ChartPoint]] = {}
    levels: dict[str, float] = {}
    for row in report.rows:
        x = row.axis(view.down)
        early = view.last_layer_only and row.layer != last
        if row.value is None or early or not is_row_plotted(view, row):
            continue
        name = str(row.axis(view.across or "variant"))
        if isinstance(x, int | float):
            point = ChartPoint(float(x), row.value, row.spread or 0.0, is_value_uncertain(row))
            series.setdefault(name, []).append(point)
        elif set(row.coordinates) == {view.across}:
            levels[name] = row.value
    title = view.title if view.across else view.metrics[0]
    named = view.measure or view.metrics[0]
    if not series:
        return None
    return Chart(
        title,
        named,
        view.down,
        series,
        levels,
        gaps=find_positions_without_numbers(report, view, series),
        bounds=collect_bound_curves(report, view) if view.metrics[0] in BOUNDS else {},
        laws=collect_fitted_curves(report, view, series),
        lost_from=find_where_series_end(report, view, series),
        unit_words=format_axis_label(named, report.metrics),
        x_words=format_axis_label(view.down, report.metrics),
    )


BOUNDS = {"log10_residual_norm": "log10_bound"}
"""The theorem's bound on each metric."""
NOT_SMALL = 0.02
"""Rounding that moves a point by more than this part of a unit is seen."""


def is_value_uncertain(row: Row) -> bool:
    by = row.keys.get(UNCERTAINTY)
    return row.note is not None or (isinstance(by, float) and by > NOT_SMALL)


def collect_bound_curves(report: Report, view: View) -> dict[str, list[ChartPoint]]:
    found: dict[str, list[ChartPoint]] = {}
    bound = BOUNDS[view.metrics[0]]
    for row in report.rows:
        x = row.axis(view.down)
        if row.metric == bound and row.value is not None and isinstance(x, int | float):
            name = str(row.axis(view.across or "variant"))
            found.setdefault(name, []).append(ChartPoint(float(x), row.value, 0.0))
    return found


def collect_fitted_curves(
    report: Report, view: View, series: Iterable[str]
) -> dict[str, FittedCurve]:
    """Collect the laws in the view that shows the fitted numbers."""
    if view.metrics[0] not in FITTED or view.across is None:
        return {}
    found = {name: find_best_fitted_law(report, view.across, name) for name in series}
    return {name: law for name, law in found.items() if law is not None}


FITTED = ("d_min",)
"""Metrics to which laws are fitted."""
LINEAR = ("residual",)
"""Metrics that are there for a linear axis."""


def find_positions_without_numbers(
    report: Report, view: View, series: Mapping[str, Sequence[ChartPoint]]
) -> tuple[float, ...]:
    known = {point.x for points in series.values() for point in points}
    lost = [
        row.axis(view.down) for row in report.rows if row.is_missing and is_row_plotted(view, row)
    ]
    places = {float(x) for x in lost if isinstance(x, int | float)}
    return tuple(sorted(places - known))


def find_where_series_end(
    report: Report, view: View, series: Mapping[str, Sequence[ChartPoint]]
) -> dict[str, float]:
    """Of series that end where others go on; where all end there are gaps."""
    found: dict[str, float] = {}
    known = {point.x for points in series.values() for point in points}
    ends = {name: max(point.x for point in points) for name, points in series.items()}
    for row in report.rows:
        x, name = row.axis(view.down), str(row.axis(view.across or "variant"))
        missing = row.is_missing and is_row_plotted(view, row) and isinstance(x, int | float)
        if missing and x in known and x > ends.get(name, math.inf):
            found[name] = min(found.get(name, math.inf), float(x))
    return found


def is_row_plotted(view: View, row: Row) -> bool:
    """Whether the view's plot has this row, if it has a number."""
    metrics = view.metrics if view.across else view.metrics[:1]
    lowest = -math.inf if view.lowest_drawn is None else view.lowest_drawn
    deep = row.value is not None and row.value < lowest
    here = view.across is None or all(
        does_row_have_axis_value(row, axis, place) for axis, place in view.where.items()
    )
    return row.metric in metrics and here and not deep


def symmetric_log(value: float) -> float:
    """sign(v) log10(1 + |v|): near 0 linear, far out logarithmic, so that -0.3 and -170000 share an axis."""
    return math.copysign(math.log10(1.0 + abs(value)), value)


def inverse_symmetric_log(value: float) -> float:
    try:
        return math.copysign(10.0 ** abs(value) - 1.0, value)
    except OverflowError:  # the logarithm of the largest rounds up
        return math.copysign(sys.float_info.max, value)


def needs_symmetric_log_axis(chart: Chart) -> bool:
    """Whether curves span more than two decades and are not all positive."""
    values = [point.y for point in chart.points_of_all_series]
    return min(values) <= 0.0 and max(map(abs, values)) > 100.0


def is_log_axis_suitable(chart: Chart) -> bool:
    """Whether all numbers are positive and span orders of magnitude, so that a log axis suits them."""
    values = [*(point.y for point in chart.points_of_all_series), *chart.levels.values()]
    return (
        chart.metric not in (*FITTED, *LINEAR)
        and min(values) > 0.0
        and max(values) > FAR * min(values)
    )


FAR = 30.0
"""A quotient of two numbers that share no linear axis."""
EVEN_STEPS = 1.3
"""Largest ratio between factors of neighbouring positions that counts as geometric."""


def is_geometric_sequence(chart: Chart) -> bool:
    """Whether positions grow by factors, as 64, 128, 256."""
    places = sorted({point.x for point in chart.points_of_all_series})
    if len(places) < 3 or places[0] <= 0.0:
        return False
    factors = [later / earlier for earlier, later in itertools.pairwise(places)]
    return min(factors) > 1.25 and max(factors) <= EVEN_STEPS * min(factors)
