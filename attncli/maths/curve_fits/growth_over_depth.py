"""Does a size grow or fall with depth exponentially or as a power, and where does a count stay constant?"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attncli.maths.curve_fits.convergence_rates import is_mean_significantly_nonzero
from attncli.maths.number_format import format_short_number

FEWEST = 5
"""The fewest layers for which a law is named."""
CLEARLY = 4.0
"""By how much smaller the squared error of one law must be."""
LONG = 3
"""States in a row with one count that make a plateau."""


class DepthGrowth(NamedTuple):
    """A fit of log10 of a size against the layer (exponential) or against its logarithm (power)."""

    factor: float
    """A layer, by the exponential law."""
    exponent: float
    """Of the layer's number, by the power law."""
    likelier: float
    """Squared error of the power law over that of the exponential one."""

    def describe_depth_growth(self) -> str:
        """`grows exponentially: ×1.2 a layer`"""
        return f"{'grows' if self.factor > 1.0 else 'falls'} {self.growth_law_description}"

    @property
    def growth_law_description(self) -> str:
        exponential = f"exponentially: ×{format_short_number(self.factor, 3)} a layer"
        power = f"as layer^{self.exponent:.2g}"
        if self.likelier > CLEARLY:
            return exponential
        if self.likelier < 1.0 / CLEARLY:
            return power
        return f"{exponential}, or {power}: not told apart"


def classify_growth_over_depth(logs: Sequence[float]) -> DepthGrowth | None:
    """Classify log10 sizes after layers 1 …; None for too few layers, or if the steps do not show whether they grow
    or fall."""
    if (
        len(logs) < FEWEST
        or not np.isfinite(logs).all()
        or not is_mean_significantly_nonzero(np.diff(logs).tolist())
    ):
        return None
    layers = np.arange(1.0, len(logs) + 1.0)
    rate, exponential = fit_least_squares_line(layers, logs)
    exponent, power = fit_least_squares_line(np.log10(layers), logs)
    return DepthGrowth(10.0**rate, exponent, power / exponential if exponential > 0.0 else np.inf)


def fit_least_squares_line(
    places: Sequence[float] | np.ndarray, values: Sequence[float]
) -> tuple[float, float]:
    """Slope of the least-squares line, and its squared error."""
    slope, start = np.polyfit(places, values, 1)
    rest = np.asarray(values) - slope * np.asarray(places) - start
    return float(slope), float(rest @ rest)


def find_layers_where_number_decreases(values: Sequence[float], slack: float = 1e-9) -> list[int]:
    """Layers after which a number is lower than before."""
    return [layer for layer in range(1, len(values)) if values[layer] < values[layer - 1] - slack]


def iter_layer_ranges_of_constant_count(
    counts: Sequence[float],
) -> Iterator[tuple[int, int, float]]:
    """First and last state of every run of one count, neither 1 nor the first state's own."""
    first = 0
    for place in range(1, len(counts) + 1):
        if place < len(counts) and counts[place] == counts[first]:
            continue
        if place - first >= LONG and 1 < counts[first] < counts[0]:
            yield first, place - 1, counts[first]
        first = place
