"""Elementwise functions on (common, varying): f(c) and f(c + R) - f(c), the difference without cancellation.

relu is piecewise linear and exact at any magnitude. gelu and silu are x·σ(s(x)); everything about them follows from

    σ(a + r) - σ(a) = σ(a + r) σ(-a) (1 - e^-r)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    align_scaled_to_exponent,
    expm1_scaled,
    find_largest_magnitude,
    make_scaled_array,
    make_scaled_from_logs,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts

LARGEST_INPUT = 1e90
"""gelu takes the cube of its input."""


def relu(x: SplitParts) -> SplitParts:
    """max(x, 0)"""
    common, varying = x
    a, r = align_scaled_to_exponent(common, varying.exponent), varying.mantissa
    difference = np.where(a > 0.0, np.maximum(r, -a), np.maximum(a + r, 0.0))
    return SplitParts(
        common.map_linearly(lambda each: np.maximum(each, 0.0)),
        make_scaled_array(difference, varying.exponent),
    )


def silu(x: SplitParts) -> SplitParts:
    """x σ(x)"""
    return multiply_by_sigmoid(x, x)


GELU_SLOPE, GELU_CUBE = 2.0 * np.sqrt(2.0 / np.pi), 0.044715


def gelu(x: SplitParts) -> SplitParts:
    """x/2 (1 + tanh(√(2/π)(x + 0.044715 x³))) = x σ(2√(2/π)(x + 0.044715 x³))"""
    a = require_cubes_in_float_range(x.common)
    total = a + require_cubes_in_float_range(x.varying)
    steepness = 1.0 + GELU_CUBE * (a * a + a * total + total * total)
    return multiply_by_sigmoid(
        x,
        SplitParts(
            make_scaled_array(GELU_SLOPE * (a + GELU_CUBE * a**3)),
            x.varying * (GELU_SLOPE * steepness),
        ),
    )


def tanh(x: SplitParts) -> SplitParts:
    """2σ(2x) - 1"""
    twice = SplitParts(x.common * 2.0, x.varying * 2.0)
    common = make_scaled_array(np.tanh(x.common.value()))
    return SplitParts(common, compute_sigmoid_gates(twice).change * 2.0)


def sigmoid(x: SplitParts) -> SplitParts:
    common, _, change = compute_sigmoid_gates(x)
    return SplitParts(common, change)


ACTIVATIONS: dict[str, Callable[[SplitParts], SplitParts]] = {
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
}

STEEPEST = {"relu": 1.0, "gelu": 1.13, "silu": 1.1}
"""Upper bounds on the slope: gelu' peaks at 1.1290 (x = 1.42), silu' at 1.0998 (x = 2.40)."""


def multiply_by_sigmoid(x: SplitParts, argument: SplitParts) -> SplitParts:
    """x σ(argument): with gate (g, h) the difference is (a + r)(g + h) - ag = a h + r (g + h)."""
    gate, whole_gate, change = compute_sigmoid_gates(argument)
    return SplitParts(x.common * gate, x.common * change + whole_gate * x.varying)


class Gates(NamedTuple):
    """σ(a), σ(a + r) and σ(a + r) - σ(a)."""

    common: ScaledArray
    whole: ScaledArray
    change: ScaledArray


FARTHEST_GATE = 300.0
"""Largest |a| and |a + r| at which σ and e^r are floats, with room for their products."""


def compute_sigmoid_gates(x: SplitParts) -> Gates:
    """Gates; from logs where some are so far in σ's tail that floats lose their relative size."""
    a, r = require_cubes_in_float_range(x.common), require_cubes_in_float_range(x.varying)
    whole = a + r
    if max(find_largest_magnitude(a), find_largest_magnitude(whole)) > FARTHEST_GATE:
        return compute_sigmoid_gates_from_logs(x.varying, a, whole)
    gate, whole_gate = (1.0 / (1.0 + np.exp(-value)) for value in (a, whole))
    slope = make_scaled_array(whole_gate / (-1.0 - np.exp(a)))
    growth = expm1_scaled(-x.varying)
    return Gates(make_scaled_array(gate), make_scaled_array(whole_gate), slope * growth)


def compute_sigmoid_gates_from_logs(difference: ScaledArray, a: Array, whole: Array) -> Gates:
    """Gates, with their change as sign(r) σ(high) σ(-low) (1 - e^-|r|), high and low the larger and smaller of both."""
    high, low = np.maximum(a, whole), np.minimum(a, whole)
    growth = expm1_scaled(-difference.apply_layout_change(np.abs))
    change = make_scaled_from_logs(
        -np.sign(difference.mantissa), log_sigmoid(high) + log_sigmoid(-low)
    )
    gate, whole_gate = (
        make_scaled_from_logs(np.ones(()), log_sigmoid(value)) for value in (a, whole)
    )
    return Gates(gate, whole_gate, change * growth)


def log_sigmoid(x: Array) -> Array:
    result: Array = -np.logaddexp(0.0, -x)
    return result


def require_cubes_in_float_range(x: ScaledArray) -> Array:
    values = x.value()
    if not np.abs(values).max(initial=0.0) < LARGEST_INPUT:
        raise InputError(
            "activations leave float range (above 1e90): lower `init_scale`, add a `norm` or use relu."
        )
    return values
