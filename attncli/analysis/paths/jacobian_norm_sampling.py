"""Norms, shares and a rank correlation estimated from a few random directions of the output, with their errors.

‖J_i‖_F² is width · E ‖u^T J_i‖² over random unit directions u. The directions of one run are orthonormal, k of a random
basis of `width`, so that of all of them the norm is exact and errors of k carry the factor √(1 - k / width).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESAMPLES = 200
"""Of the directions, for the error of a rank correlation, which is not smooth enough for a jackknife."""


class TokenEstimatesWithErrors(NamedTuple):
    """One number of every token, from the same directions."""

    values: list[float]
    errors: list[float]
    """Standard errors; nan for a single direction."""


class EstimateWithError(NamedTuple):
    """A single number and its standard error."""

    value: float
    error: float


def jacobian_norms(back: Array, width: int) -> Array:
    """‖J_i‖_F from ‖u^T J_i‖ [direction, token]."""
    result: Array = np.sqrt(width * (back**2).mean(axis=0))
    return result


def convert_norms_to_shares(norms: Array) -> Array:
    whole = math.fsum(norms)
    result: Array = norms / whole if whole else np.zeros_like(norms)
    return result


def estimate_jacobian_norms(back: Array, width: int) -> TokenEstimatesWithErrors:
    return estimate_with_jackknife_errors(back, width, lambda rows: jacobian_norms(rows, width))


def estimate_jacobian_norm_shares(back: Array, width: int) -> TokenEstimatesWithErrors:
    return estimate_with_jackknife_errors(
        back, width, lambda rows: convert_norms_to_shares(jacobian_norms(rows, width))
    )


def estimate_with_jackknife_errors(
    back: Array, width: int, of: Callable[[Array], Array]
) -> TokenEstimatesWithErrors:
    """Estimates from all directions, with the jackknife's error from leaving each one out."""
    values = of(back)
    k = len(back)
    if k >= width:
        return TokenEstimatesWithErrors(values.tolist(), [0.0] * len(values))
    if k == 1:
        return TokenEstimatesWithErrors(values.tolist(), [math.nan] * len(values))
    without = np.stack([of(np.delete(back, left_out, axis=0)) for left_out in range(k)])
    square = (k - 1) / k * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    return TokenEstimatesWithErrors(
        values.tolist(), np.sqrt(direction_sampling_variance_factor(k, width) * square).tolist()
    )


def direction_sampling_variance_factor(k: int, width: int) -> float:
    """Factor of the variance that k of `width` orthonormal directions leave."""
    return max(0.0, 1.0 - k / width)


def estimate_correlation(
    back: Array, width: int, other: Sequence[float], seed: int
) -> EstimateWithError:
    """Spearman's correlation of the norms with another number of every token; its error by resampling directions."""
    value = rank_correlation(jacobian_norms(back, width).tolist(), other)
    k = len(back)
    if k >= width or k == 1:
        return EstimateWithError(value, 0.0 if k >= width else math.nan)
    drawn = np.random.default_rng(seed).integers(0, k, (RESAMPLES, k))
    found = [rank_correlation(jacobian_norms(back[rows], width).tolist(), other) for rows in drawn]
    return EstimateWithError(
        value, float(np.std(found)) * math.sqrt(direction_sampling_variance_factor(k, width))
    )


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's; nan where one is the same everywhere."""
    x, y = (rank_values(values) for values in (first, second))
    size = float(x.std() * y.std())
    return float(((x - x.mean()) * (y - y.mean())).mean()) / size if size > 0.0 else math.nan


def rank_values(values: Sequence[float]) -> Array:
    """Equal values share their mean rank."""
    array = np.asarray(values)
    return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2.0 for v in array])
