"""Whether the mean of a few numbers differs from zero, by Student's t."""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import mean, stdev

from attncli.maths.significance import CONFIDENCE, ConfidenceInterval, student_quantile


def interval_of_mean(values: Sequence[float]) -> ConfidenceInterval:
    """The interval that contains the mean with probability `CONFIDENCE`, if the numbers have equal variance."""
    if len(values) < 2:
        return ConfidenceInterval(-math.inf, math.inf)
    half = confidence_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return ConfidenceInterval(mean(values) - half, mean(values) + half)


@lru_cache
def confidence_quantile(freedom: int) -> float:
    return student_quantile(CONFIDENCE, freedom)


def is_clear_of_zero(rates: Sequence[float]) -> bool:
    """Whether their mean differs clearly from zero, also without any one of them."""
    fewer = [[*rates[:at], *rates[at + 1 :]] for at in range(len(rates))]
    return not any(low <= 0.0 <= high for low, high in map(interval_of_mean, (rates, *fewer)))
