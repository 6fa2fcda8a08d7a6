"""How many digits rounding leaves of numbers computed by subtraction: measured, not assumed.

A pass in plain numbers runs twice, the second time with the last bits perturbed. The difference of
the two states is a sample of their rounding error. The uncertainty of a number is its change when
the state moves by `MOVES` times that difference, to either side: where the residual is rounding
itself, the move is as large as it is.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from attncli.analysis.rank_collapse.metrics_over_layers import EXACT
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.number_format import format_number, format_short_number
from attncli.tolerances import KNOWN_NUMBER, KNOWN_NUMBER_AT_ZERO

MOVES = 2.0
"""Safety factor: the sample may by chance be smaller than the rounding error."""


class PerturbedStatePair(NamedTuple):
    """One state [token, feature] as the first and the second pass have it."""

    first: Array
    second: Array

    def extrapolate_state(self, side: int) -> SplitState:
        return SplitState.from_states(self.first + side * MOVES * (self.second - self.first))


def estimate_uncertainties(
    metrics: Mapping[str, Callable[..., float]],
    values: Mapping[str, float],
    states: tuple[PerturbedStatePair, ...],
) -> dict[str, float]:
    """Uncertainty of each metric of the first pass's states, from those of the second pass."""
    moved = [[state.extrapolate_state(side) for state in states] for side in (1, -1)]
    return {
        name: max(absolute_difference_or_inf(measure(*each), values[name]) for each in moved)
        for name, measure in metrics.items()
    }


def absolute_difference_or_inf(one: float, other: float) -> float:
    """Infinite where either is."""
    return abs(one - other) if math.isfinite(one) and math.isfinite(other) else math.inf


def has_significant_digits(value: float, uncertainty: float) -> bool:
    allowed = max(
        KNOWN_NUMBER.tolerance_for_dtype() * abs(value), KNOWN_NUMBER_AT_ZERO.tolerance_for_dtype()
    )
    return math.isfinite(value) and uncertainty <= allowed


def explain_insignificant_value(value: float, uncertainty: float, arithmetic: str) -> str:
    """For the note of a null; an uncertainty that is nan was not sought."""
    if math.isnan(uncertainty):
        return "n/a: the state before it is of other tokens"
    arithmetic = "exact arithmetic" if arithmetic == EXACT else arithmetic
    if not math.isfinite(value):
        return f"0 in {arithmetic}: all tokens round to one vector"
    if not math.isfinite(uncertainty):
        return f"not known in {arithmetic}: rounding alone makes {format_number(value)}"
    return f"not known to 1 % in {arithmetic}: {format_number(value)} ± {format_short_number(uncertainty, 1)} by rounding"
