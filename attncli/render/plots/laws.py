"""Laws that were fitted to points, drawn as curves."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attncli.maths.digits import number
from attncli.records import Report

STEPS = 64
"""Points of a curve."""
CONSTANT, LOG, POWER = "constant", "log", "power"
BEHIND, AT_ONE, SLOPE, EXPONENT = "aic_above_best", "law_at_one_token", "slope", "exponent"
"""The metrics that a fitted law is made of: how far it is behind the best, then its parameters."""


class LawCurve(NamedTuple):
    """One law."""

    text: str
    """`d = 2.6 n^0.11`"""
    kind: str
    parameters: tuple[float, ...]

    def value(self, x: float) -> float:
        if self.kind == POWER:
            factor, exponent = self.parameters
            return factor * float(x**exponent)
        offset, slope = (*self.parameters, 0.0)[:2]
        return offset + (slope * math.log(x) if slope else 0.0)

    def points(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        """Evenly apart in log x."""
        for step in range(STEPS + 1):
            x = low * (high / low) ** (step / STEPS)
            yield x, self.value(x)


def best_law(report: Report, axis: str, place: str) -> LawCurve | None:
    """The law that fits the points of this place best, where all its parameters are reported."""
    own = [row for row in report.rows if "law" in row.keys and str(row.axis(axis)) == place]
    best = [row for row in own if row.metric == BEHIND and row.value == 0.0]
    if not best:
        return None
    kind = str(best[0].keys["law"])
    values = {row.metric: row.value for row in own if row.keys["law"] == kind}
    wanted = {CONSTANT: (AT_ONE,), LOG: (AT_ONE, SLOPE), POWER: (AT_ONE, EXPONENT)}.get(kind, ())
    found = [value for name in wanted if (value := values.get(name)) is not None]
    if not found or len(found) < len(wanted):
        return None
    return LawCurve(in_words(kind, found), kind, tuple(found))


def in_words(kind: str, parameters: Sequence[float]) -> str:
    if kind == POWER:
        return f"{parameters[0]:.2g} n^{parameters[1]:.2g}"
    if kind == LOG:
        sign = "+" if parameters[1] >= 0.0 else "−"
        return f"{parameters[0]:.2g} {sign} {abs(parameters[1]):.2g} ln n"
    return number(parameters[0])
