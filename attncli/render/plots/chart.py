"""What both plots draw: the first view of a report that spreads one metric over an axis."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from attncli.records import Report


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    spread: float


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    metric: str
    x_label: str
    series: Mapping[str, list[Point]]

    @property
    def points(self) -> list[Point]:
        return [point for points in self.series.values() for point in points]


def chart(report: Report) -> Chart | None:
    """The curves of the first such view; None where the report has no numbers to draw."""
    drawn = (view for view in report.views if view.across not in (None, "head"))
    view = next(drawn, None)  # heads are a grid, not curves
    if view is None or view.across is None:
        return None
    last = max((row.layer for row in report.rows if row.layer is not None), default=None)
    series: dict[str, list[Point]] = {}
    for row in report.rows:
        x = row.axis(view.down)
        early = view.last_layer_only and row.layer != last
        if row.metric not in view.metrics or row.value is None or early:
            continue
        if isinstance(x, int | float):
            point = Point(float(x), row.value, row.spread or 0.0)
            series.setdefault(str(row.axis(view.across)), []).append(point)
    return Chart(view.title, view.metrics[0], view.down, series) if series else None


def squeeze(value: float) -> float:
    """sign(v) log10(1 + |v|): near 0 linear, far out logarithmic, so that -0.3 and -170000 share an axis."""
    return math.copysign(math.log10(1.0 + abs(value)), value)


def unsqueeze(value: float) -> float:
    return math.copysign(10.0 ** abs(value) - 1.0, value)


def needs_squeeze(chart: Chart) -> bool:
    """Curves that span more than two decades of values need the squeezed axis."""
    return max(abs(point.y) for point in chart.points) > 100.0
