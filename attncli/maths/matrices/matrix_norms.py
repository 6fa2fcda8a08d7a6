"""Norms of a plain matrix, and their logarithms for scaled ones."""

import math
from collections.abc import Callable

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    log10_of_scaled,
)

Norm = Callable[[Array], float]


def one_norm(matrix: Array) -> float:
    """Largest column sum of absolute values."""
    return float(np.abs(matrix).sum(axis=0).max())


def infinity_norm(matrix: Array) -> float:
    """Largest row sum of absolute values."""
    return float(np.abs(matrix).sum(axis=1).max())


def composite_norm(matrix: Array) -> float:
    """‖M‖_{1,∞} = √(‖M‖_1 ‖M‖_∞): homogeneous, but without a triangle inequality."""
    return float(np.sqrt(one_norm(matrix)) * np.sqrt(infinity_norm(matrix)))


def frobenius_norm(matrix: Array) -> float:
    return float(np.sqrt(np.square(matrix).sum()))


def spectral_norm(matrix: Array) -> float:
    return float(singular_values(matrix)[0])


def singular_values(matrix: Array) -> Array:
    return np.linalg.svd(matrix, compute_uv=False).astype(np.float64, copy=False)


def compute_log10_relative_matrix_norm(part: ScaledArray, whole: ScaledArray, norm: Norm) -> float:
    """log10 of ‖part‖ / ‖whole‖; -inf where the part is zero."""
    return (
        -math.inf
        if part.is_zero()
        else compute_log10_matrix_norm(part, norm) - compute_log10_matrix_norm(whole, norm)
    )


def compute_log10_matrix_norm(matrix: ScaledArray, norm: Norm) -> float:
    """log10 ‖M‖; -inf for zero."""
    return log10_of_scaled(norm(matrix.mantissa), matrix.exponent)
