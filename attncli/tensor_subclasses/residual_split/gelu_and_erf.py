"""gelu and erf of split tensors: f(a + r) - f(a) by one formula with at most one evaluation of the error function a number.

a is the common row, so all that depends on it alone is found once for all tokens: the Taylor series of f in r, which keeps
r's digits where r is small. Elsewhere Φ(a + r) is compared with Φ(a).
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    NEGLIGIBLE,
    Array,
    ScaledArray,
    make_scaled_array,
    scale_by_power_of_two,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts
from attncli.tensor_subclasses.residual_split.split_tensor_shape_functions import iter_token_slices

NEAR = 0.01
"""|r| (1 + |a|) below which `TERMS` terms of the Taylor series leave an error of 1e-16."""

TERMS = 7

SATURATED = 40.0
"""Beyond it the density of the normal distribution is no float."""


def gelu(x: SplitParts, axis: int) -> SplitParts:
    """x Φ(x), whose difference is a ΔΦ + r Φ(a + r)."""
    a = x.common.value()
    slopes = compute_normal_cdf_derivatives(a)
    inside = a.clip(-SATURATED, SATURATED)
    taylor = [
        inside * now + k * before for k, (before, now) in enumerate(pairwise(slopes), start=1)
    ]
    common = x.common * make_scaled_array(slopes[0])
    return SplitParts(common, compute_normal_cdf_change(a, x.varying, axis, taylor, a, 1.0))


def erf(x: SplitParts, axis: int) -> SplitParts:
    """2Φ(√2 x) - 1"""
    a, r = x.common.value() * math.sqrt(2.0), x.varying * math.sqrt(2.0)
    change = compute_normal_cdf_change(a, r, axis, compute_normal_cdf_derivatives(a)[1:], 1.0, 0.0)
    common = torch.erf(torch.from_numpy(x.common.value())).numpy()
    return SplitParts(make_scaled_array(common), change * 2.0)


def normal_cdf(x: Array) -> Array:
    """Φ, to full relative accuracy in its lower tail."""
    found: Array = torch.erfc(torch.from_numpy(x * -math.sqrt(0.5))).numpy()
    found *= 0.5
    return found


def compute_normal_cdf_derivatives(a: Array) -> list[Array]:
    """Φ and its first derivatives: (-1)^n He_n φ, with the Hermite polynomials He_n."""
    inside = a.clip(-SATURATED, SATURATED)
    before, now = np.zeros_like(a), np.exp(-inside * inside / 2.0) / math.sqrt(2.0 * math.pi)
    found = [normal_cdf(a)]
    for n in range(TERMS):
        found.append(now)
        before, now = now, -inside * now - n * before
    return found


def compute_normal_cdf_change(
    a: Array,
    r: ScaledArray,
    axis: int,
    taylor: Sequence[Array],
    of_change: Array | float,
    of_whole: float,
) -> ScaledArray:
    """`of_change` ΔΦ + `of_whole` r Φ(a + r); `taylor`: its derivatives at r = 0, from the first.

    Tokens are along the axis.
    """
    at_common, growth = normal_cdf(a), 1.0 + np.abs(a)
    coefficients = [value / math.factorial(k) for k, value in enumerate(taylor, start=1)]
    result = np.empty(r.mantissa.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # of the series where it is not taken
        for tokens in iter_token_slices(result.shape, axis):
            step = scale_by_power_of_two(r.mantissa[tokens], r.exponent)
            reach = np.abs(step)
            reach *= growth
            largest = float(reach.max(initial=0.0))
            series = evaluate_polynomial(coefficients[: count_taylor_terms(largest)], step)
            np.multiply(series, r.mantissa[tokens], out=result[tokens])
            if largest > NEAR:
                whole = normal_cdf(a + step)
                change = of_change * (whole - at_common) + of_whole * step * whole
                change = scale_by_power_of_two(change, -r.exponent)
                np.copyto(result[tokens], change, where=reach > NEAR)
    return make_scaled_array(result, r.exponent)


def count_taylor_terms(reach: float) -> int:
    """How many terms of a Taylor series change its value, for |r| (1 + |a|) up to this."""
    if reach >= NEAR:
        return TERMS
    return 1 if reach == 0.0 else min(TERMS, 1 + math.ceil(NEGLIGIBLE / math.log2(reach)))


def evaluate_polynomial(coefficients: Sequence[Array], x: Array) -> Array:
    """Horner's rule."""
    *lower, total = coefficients
    total = np.broadcast_to(total, x.shape).copy()
    for coefficient in reversed(lower):
        total *= x
        total += coefficient
    return total
