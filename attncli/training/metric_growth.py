"""Growth of the heads' numbers over observations: slopes with errors, and when a limit is reached."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from attncli.maths.curve_fits.straight_line_slopes import fit_slopes_of_lines
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention.qk_clip import LARGEST_LOGIT
from attncli.records import FOUND_KEYS, NOT_APPLICABLE, Definition, Row

HEALTH = ("max_logit", "qk_clip", "min_entropy", "entropy_collapse")
"""Metrics that grow or fall before a training fails."""
LIMITS: Mapping[str, float] = {"max_logit": LARGEST_LOGIT}
GROWTH, LEFT = "_growth", "_steps_left"
WINDOW = 10
"""Observations in a fitted line: older ones do not predict what comes."""
FEWEST = 3
"""Fewest observations for a slope with an error."""
CLEAR = 2.0
"""Standard errors by which a slope must differ from 0 before a crossing is predicted."""
TOO_FEW = NOT_APPLICABLE + f"a slope with its error needs {FEWEST} looks"

Place = tuple[object, ...]


def make_head_identifier(row: Row) -> Place:
    """Which head a row is about."""
    return tuple(sorted((name, str(value)) for name, value in row.coordinates.items()))


class HeadMetricHistory:
    """The last observations of a training."""

    def __init__(self, metrics: Iterable[str], limits: Mapping[str, float] = LIMITS) -> None:
        self.metrics = tuple(metrics)
        self.limits = dict(limits)
        self.looks: deque[tuple[int, dict[tuple[str, Place], float]]] = deque(maxlen=WINDOW)

    def record_observation(self, step: int, rows: Sequence[Row]) -> None:
        """Add an observation; a missing number leaves a gap."""
        found = {
            (row.metric, make_head_identifier(row)): row.value
            for row in rows
            if row.metric in self.metrics and row.value is not None
        }
        self.looks.append((step, found))

    def build_metric_growth_rows(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Growth of every head in these rows of the latest observation, which has been added."""
        for metric in self.metrics:
            own = [row for row in rows if row.metric == metric and row.head is not None]
            if own:
                yield from self.build_growth_rows_of_metric(metric, own)

    def build_growth_rows_of_metric(self, metric: str, own: Sequence[Row]) -> Iterator[Row]:
        curves = np.array([self.read_metric_curve_of_head(row) for row in own])
        found = fit_slopes_of_lines(np.array([float(step) for step, _ in self.looks]), curves)
        limit = self.limits.get(metric)
        for row, slope, error in zip(own, found.slope, found.error, strict=True):
            yield self.build_metric_slope_row(row, float(slope), float(error))
            if limit is not None:
                yield self.build_steps_until_limit_row(row, float(slope), float(error), limit)

    def read_metric_curve_of_head(self, row: Row) -> list[float]:
        place = (row.metric, make_head_identifier(row))
        return [seen.get(place, math.nan) for _, seen in self.looks]

    def build_metric_slope_row(self, row: Row, slope: float, error: float) -> Row:
        return build_metric_growth_row(
            row, GROWTH, f"{row.unit}/step", None if math.isnan(error) else slope, TOO_FEW, error
        )

    def build_steps_until_limit_row(
        self, row: Row, slope: float, error: float, limit: float
    ) -> Row:
        """Steps from now on; 0 where the limit is passed already."""
        value = math.nan if row.value is None else row.value
        if math.isnan(error) or math.isnan(value):
            return build_metric_growth_row(row, LEFT, "steps", None, TOO_FEW)
        if value >= limit:
            return build_metric_growth_row(row, LEFT, "steps", 0.0, "")
        if slope <= CLEAR * error:
            why = f"it does not grow by more than {CLEAR:g} errors"
            return build_metric_growth_row(row, LEFT, "steps", None, NOT_APPLICABLE + why)
        return build_metric_growth_row(row, LEFT, "steps", (limit - value) / slope, "")

    def define_growth_metrics(self, measured: Iterable[str]) -> dict[str, Definition]:
        """Definitions of the derived metrics, for those that are measured."""
        found: dict[str, Definition] = {}
        for metric in measured:
            if metric in self.metrics:
                unit = ATTENTION.definition(metric).unit
                found[metric + GROWTH] = Definition(
                    f"{unit}/step",
                    f"Growth of {metric} per step: slope of the straight line through the last {WINDOW} looks, `error` its "
                    "standard error.",
                )
                if metric in self.limits:
                    found[metric + LEFT] = Definition(
                        "steps",
                        f"Steps until {metric} reaches {self.limits[metric]:g} at this growth, where that is clear of its "
                        "error.",
                    )
        return found


def build_metric_growth_row(
    row: Row, ending: str, unit: str, value: float | None, why: str, error: float = math.nan
) -> Row:
    """A derived row at the same coordinates."""
    keys = {name: each for name, each in row.keys.items() if name not in FOUND_KEYS}
    keys |= {} if math.isnan(error) else {"error": error}
    note = why if value is None else None
    return Row(
        row.metric + ending, value, unit, layer=row.layer, head=row.head, note=note, keys=keys
    )
