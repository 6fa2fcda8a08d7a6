"""Rates at which a curve of log10 r falls over layers: the order of its convergence, and whether a mean rate differs
from zero, by Student's t."""

import itertools
import math
from collections.abc import Sequence
from statistics import mean, stdev

from attncli.maths.significance_tests import CONFIDENCE, ConfidenceInterval, student_quantile

STEADY = -0.1
"""Decades a layer: two steps in a row at least this steep make an order; flatter ones are noise."""


def compute_convergence_orders(curve: Sequence[float]) -> list[float | None]:
    """p_l = Δlog r_l / Δlog r_(l-1) for every state; None where the curve does not fall steadily.

    3 is the doubly exponential law of pure attention, 1 a constant factor a layer.
    """
    steps = [after - before for before, after in itertools.pairwise(curve)]
    found: list[float | None] = [None, None]
    for before, after in itertools.pairwise(steps):
        steady = -math.inf < after <= STEADY and before <= STEADY
        found.append(after / before if steady else None)
    return found[: len(curve)]


def estimate_late_convergence_order(curve: Sequence[float]) -> float | None:
    """The geometric mean of the last orders, over at most half of the layers: a long step and a short one cancel.

    Counted from the end for as long as the curve falls steadily; None where it ends otherwise, or after one order: that
    is made of three points, and any three make one.
    """
    known = list_late_convergence_orders(curve)
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if len(known) > 1 else None


def list_late_convergence_orders(curve: Sequence[float]) -> list[float]:
    """The last orders, from the end for as long as the curve falls steadily, over at most half of the layers."""
    late = compute_convergence_orders(curve)[max(2, len(curve) // 2) :]
    last = itertools.takewhile(lambda p: p is not None, reversed(late))
    return [p for p in last if p is not None]


def confidence_interval_of_mean(values: Sequence[float]) -> ConfidenceInterval:
    """The interval that contains the mean with probability `CONFIDENCE`, if the numbers have equal variance."""
    if len(values) < 2:
        return ConfidenceInterval(-math.inf, math.inf)
    half = student_quantile(CONFIDENCE, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return ConfidenceInterval(mean(values) - half, mean(values) + half)


def is_mean_significantly_nonzero(rates: Sequence[float]) -> bool:
    """Whether their mean differs clearly from zero, also without any one of them."""
    fewer = [[*rates[:at], *rates[at + 1 :]] for at in range(len(rates))]
    return not any(
        low <= 0.0 <= high for low, high in map(confidence_interval_of_mean, (rates, *fewer))
    )
