"""Elementwise functions on (common, varying): f(c) and f(c + R) - f(c), the difference without cancellation.

relu is piecewise linear and exact at any magnitude. gelu and silu are x·σ(s(x)); everything about them follows from

    σ(a + r) - σ(a) = σ(a + r) σ(-a) (1 - e^-r),    with a and a + r exchanged for negative r
"""

from collections.abc import Callable

import numpy as np

from attncli.errors import InputError
from attncli.maths.residuals.common_row_plus_deviation import SplitParts
from attncli.maths.residuals.scaled_arrays import (
    Array,
    ScaledArray,
    add_scaled_arrays,
    align_exponent,
    expm1_scaled,
    make_scaled_array,
    make_scaled_from_logs,
    multiply_scaled_arrays,
    multiply_scaled_by_plain,
)

LARGEST_INPUT = 1e90
"""gelu takes the cube of its input."""


def relu(x: SplitParts) -> SplitParts:
    """max(x, 0)"""
    common, varying = x
    a, r = align_exponent(common, varying.exponent), varying.mantissa
    difference = np.where(a > 0.0, np.maximum(r, -a), np.maximum(a + r, 0.0))
    return SplitParts(
        make_scaled_array(np.maximum(common.mantissa, 0.0), common.exponent),
        make_scaled_array(difference, varying.exponent),
    )


def silu(x: SplitParts) -> SplitParts:
    """x σ(x)"""
    return multiply_by_sigmoid(x, x)


GELU_SLOPE, GELU_CUBE = 2.0 * np.sqrt(2.0 / np.pi), 0.044715


def gelu(x: SplitParts) -> SplitParts:
    """x/2 (1 + tanh(√(2/π)(x + 0.044715 x³))) = x σ(2√(2/π)(x + 0.044715 x³))"""
    a = require_cubes_in_range(x.common)
    total = a + require_cubes_in_range(x.varying)
    steepness = 1.0 + GELU_CUBE * (a * a + a * total + total * total)
    return multiply_by_sigmoid(
        x,
        SplitParts(
            make_scaled_array(GELU_SLOPE * (a + GELU_CUBE * a**3)),
            multiply_scaled_by_plain(x.varying, GELU_SLOPE * steepness),
        ),
    )


def tanh(x: SplitParts) -> SplitParts:
    """2σ(2x) - 1"""
    twice = SplitParts(
        multiply_scaled_by_plain(x.common, 2.0), multiply_scaled_by_plain(x.varying, 2.0)
    )
    a, r = require_cubes_in_range(twice.common), require_cubes_in_range(twice.varying)
    return SplitParts(
        make_scaled_array(np.tanh(a / 2.0)),
        multiply_scaled_by_plain(compute_sigmoid_change(twice.varying, a, r), 2.0),
    )


def sigmoid(x: SplitParts) -> SplitParts:
    a, r = require_cubes_in_range(x.common), require_cubes_in_range(x.varying)
    return SplitParts(
        make_scaled_from_logs(np.ones(()), log_sigmoid(a)), compute_sigmoid_change(x.varying, a, r)
    )


ACTIVATIONS: dict[str, Callable[[SplitParts], SplitParts]] = {
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
}

STEEPEST = {"relu": 1.0, "gelu": 1.13, "silu": 1.1}
"""Upper bounds on the slope: gelu' peaks at 1.1290 (x = 1.42), silu' at 1.0998 (x = 2.40)."""


def multiply_by_sigmoid(x: SplitParts, argument: SplitParts) -> SplitParts:
    """x σ(argument): with gate (g, h) the difference is (a + r)(g + h) - ag = a h + r (g + h).

    The gate is kept in logs, so that units far in its tail keep their relative size.
    """
    a, r = require_cubes_in_range(argument.common), require_cubes_in_range(argument.varying)
    gate, whole_gate = (
        make_scaled_from_logs(np.ones(()), log_sigmoid(value)) for value in (a, a + r)
    )
    change = compute_sigmoid_change(argument.varying, a, r)
    return SplitParts(
        multiply_scaled_arrays(x.common, gate),
        add_scaled_arrays(
            multiply_scaled_arrays(x.common, change), multiply_scaled_arrays(whole_gate, x.varying)
        ),
    )


def log_sigmoid(x: Array) -> Array:
    result: Array = -np.logaddexp(0.0, -x)
    return result


def compute_sigmoid_change(difference: ScaledArray, a: Array, r: Array) -> ScaledArray:
    """σ(a + r) - σ(a) = sign(r) σ(high) σ(-low) (1 - e^-|r|), high and low the larger and smaller of a and a + r."""
    high, low = np.maximum(a, a + r), np.minimum(a, a + r)
    growth = expm1_scaled(ScaledArray(-np.abs(difference.mantissa), difference.exponent))
    change = make_scaled_from_logs(
        -np.sign(difference.mantissa), log_sigmoid(high) + log_sigmoid(-low)
    )
    return multiply_scaled_arrays(change, growth)


def require_cubes_in_range(x: ScaledArray) -> Array:
    values = x.value()
    if not np.abs(values).max(initial=0.0) < LARGEST_INPUT:
        raise InputError(
            "activations leave float range (above 1e90): lower `init_scale`, add a `norm` or use relu."
        )
    return values
