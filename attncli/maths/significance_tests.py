"""Is a difference more than noise? Standard deviations, Student's t, and corrections for multiple tests; standard
library only."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

TINY = 1e-300
"""Instead of a zero denominator in a continued fraction (Lentz)."""
STEPS = 10_000
HALVINGS = 60
CONFIDENCE = 0.95
"""Of intervals."""


def mean(numbers: Sequence[float]) -> float:
    """The mean, also of numbers whose sum exceeds the float range."""
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        return math.fsum(number / len(numbers) for number in numbers)


def standard_deviation(numbers: Sequence[float], mean: float) -> float | None:
    """Standard deviation with n - 1; None for a single number."""
    if len(numbers) < 2:
        return None
    distances = [number - mean for number in numbers]
    scale = max(map(abs, distances)) or 1.0
    square = math.fsum([(distance / scale) ** 2 for distance in distances])
    return scale * math.sqrt(square / (len(numbers) - 1))


def estimate_standard_deviation_of_share(share: float, draws: int) -> float | None:
    """The standard deviation of the share of ones among draws that are 1 or 0."""
    return math.sqrt(share * (1.0 - share) * draws / (draws - 1)) if draws > 1 else None


def compute_two_sided_p_value(t: float, freedom: float) -> float:
    """The probability that Student's t with so many degrees of freedom is at least as far from 0: I_x(f/2, 1/2), x = f/(f+t²)."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@lru_cache
def student_quantile(share: float, freedom: float) -> float:
    """The quantile of Student's t: how far from 0 it lies at most with this probability, to either side."""
    low, high = 0.0, 1.0
    while compute_two_sided_p_value(high, freedom) > 1.0 - share:
        high *= 2.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (
            (middle, high)
            if compute_two_sided_p_value(middle, freedom) > 1.0 - share
            else (low, middle)
        )
    return high


class ConfidenceInterval(NamedTuple):
    """The interval that contains a number with probability `CONFIDENCE`."""

    low: float
    high: float


def compute_student_confidence_interval(
    value: float, error: float, freedom: int
) -> ConfidenceInterval:
    """Student's t interval; of a positive number on its logarithm, since sums of few squares are nearly symmetric
    there."""
    if error == 0.0:
        return ConfidenceInterval(value, value)
    if math.isnan(error) or freedom < 1:
        return ConfidenceInterval(-math.inf, math.inf)
    reach = student_quantile(CONFIDENCE, freedom) * error
    if value <= 0.0:
        return ConfidenceInterval(value - reach, value + reach)
    factor = math.exp(min(reach / value, 700.0))
    return ConfidenceInterval(value / factor, value * factor)


def compute_welch_degrees_of_freedom(first: tuple[float, int], second: tuple[float, int]) -> float:
    """Degrees of freedom of a difference of two means, each given by its spread and how many numbers it is of (Welch)."""
    parts = [(s * s / n, n - 1) for s, n in (first, second)]
    total = sum(part for part, _ in parts)
    shares = [(part / total) ** 2 / freedom for part, freedom in parts] if total else [1.0]
    return 1.0 / sum(shares)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction where that converges fast."""
    if x <= 0.0 or x >= 1.0:
        return min(max(x, 0.0), 1.0)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1.0) / (a + b + 2.0):
        return front * beta_continued_fraction(x, a, b) / a
    return 1.0 - front * beta_continued_fraction(1.0 - x, b, a) / b


def beta_continued_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (Numerical Recipes 6.4), evaluated forwards."""
    c, d = 1.0, 1.0 / clamp_away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / clamp_away_from_zero(1.0 + term * d)
            c = clamp_away_from_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value


def clamp_away_from_zero(number: float) -> float:
    return number if abs(number) > TINY else TINY


def adjust_p_values_by_holm(chances: Sequence[float]) -> list[float]:
    """Adjust probabilities for multiple tests (Holm): one below α is significant at α for the whole family."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    adjusted, least = [0.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(chances) - rank) * chances[place]))
        adjusted[place] = least
    return adjusted
