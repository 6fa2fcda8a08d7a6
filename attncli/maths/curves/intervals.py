"""Where the mean of a few numbers lies, by Student's t."""

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """From one number to another; infinite where too few were measured."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float) and self.low <= value <= self.high


def interval_of_mean(values: Sequence[float]) -> Interval:
    """In which the mean lies by chance `CONFIDENCE`, if the numbers scatter alike."""
    if len(values) < 2:
        return Interval(-math.inf, math.inf)
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, (1.0 + CONFIDENCE) / 2.0)) * stdev(values)
    middle, half = mean(values), half / math.sqrt(len(values))
    return Interval(middle - half, middle + half)


def clear(rates: Sequence[float]) -> bool:
    """Whether their mean is clear of nothing, and stays so without any one of them."""
    fewer = [[*rates[:at], *rates[at + 1 :]] for at in range(len(rates))]
    return all(0.0 not in interval_of_mean(each) for each in (rates, *fewer))
