"""Fitted laws as curves."""

from collections.abc import Iterator
from typing import NamedTuple

from attncli.maths.curve_fits.evaluate_growth_law import CONSTANT, LOG, RATES, evaluate_growth_law
from attncli.maths.number_format import format_number
from attncli.records import Report

STEPS = 64
"""Points of a curve."""
BEHIND, AT_ONE = "aic_above_best", "law_at_one_token"
"""How far a law is behind the best, and its value at n = 1."""


class FittedCurve(NamedTuple):
    """One law."""

    kind: str
    start: float
    rate: float

    @property
    def formula_text(self) -> str:
        """`2.6 n^0.11`"""
        if self.kind == CONSTANT:
            return format_number(self.start)
        if self.kind == LOG:
            return f"{self.start:.2g} {'−' if self.rate < 0.0 else '+'} {abs(self.rate):.2g} ln n"
        return f"{self.start:.2g} n^{self.rate:.2g}"

    def evaluate_curve_at(self, x: float) -> float:
        return evaluate_growth_law(self.kind, self.start, self.rate, x)

    def sample_curve_points(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        """Points evenly spaced in log x."""
        for step in range(STEPS + 1):
            x = low * (high / low) ** (step / STEPS)
            yield x, self.evaluate_curve_at(x)


def find_best_fitted_law(report: Report, axis: str, place: str) -> FittedCurve | None:
    """The law that fits the points of this series best, where all its parameters are reported."""
    own = [row for row in report.rows if "law" in row.keys and str(row.axis(axis)) == place]
    kinds = [str(row.keys["law"]) for row in own if row.metric == BEHIND and row.value == 0.0]
    values = {row.metric: row.value for row in own if row.keys["law"] in kinds[:1]}
    start, rate = values.get(AT_ONE), values.get(RATES.get(kinds[0], "")) if kinds else None
    if start is None or (rate is None and kinds[0] != CONSTANT):
        return None
    return FittedCurve(kinds[0], start, rate or 0.0)
