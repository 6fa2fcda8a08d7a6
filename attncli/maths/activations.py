"""Token-wise functions on (common, varying): f(c) and f(c + R) - f(c), the difference without cancellation.

relu is piecewise linear and exact at any magnitude. gelu and silu are x·σ(s(x)); everything about them follows from

    σ(a + r) - σ(a) = σ(a + r) σ(-a) (1 - e^-r),    with a and a + r exchanged for negative r
"""

from collections.abc import Callable

import numpy as np

from attncli.errors import InputError
from attncli.maths.scaled import (
    Array,
    Scaled,
    aligned,
    expm1_scaled,
    from_logs,
    plus,
    product,
    scaled,
    times,
)
from attncli.maths.split import Parts

LARGEST_INPUT = 1e90
"""gelu takes the cube of its input."""


def relu(x: Parts) -> Parts:
    """max(x, 0)"""
    common, varying = x
    a, r = aligned(common, varying.exponent), varying.mantissa
    difference = np.where(a > 0.0, np.maximum(r, -a), np.maximum(a + r, 0.0))
    return Parts(
        scaled(np.maximum(common.mantissa, 0.0), common.exponent),
        scaled(difference, varying.exponent),
    )


def silu(x: Parts) -> Parts:
    """x σ(x)"""
    return gated(x, x)


GELU_SLOPE, GELU_CUBE = 2.0 * np.sqrt(2.0 / np.pi), 0.044715


def gelu(x: Parts) -> Parts:
    """x/2 (1 + tanh(√(2/π)(x + 0.044715 x³))) = x σ(2√(2/π)(x + 0.044715 x³))"""
    a = in_cube_range(x.common)
    total = a + in_cube_range(x.varying)
    steepness = 1.0 + GELU_CUBE * (a * a + a * total + total * total)
    return gated(
        x,
        Parts(
            scaled(GELU_SLOPE * (a + GELU_CUBE * a**3)),
            times(x.varying, GELU_SLOPE * steepness),
        ),
    )


ACTIVATIONS: dict[str, Callable[[Parts], Parts]] = {"relu": relu, "gelu": gelu, "silu": silu}

STEEPEST = {"relu": 1.0, "gelu": 1.13, "silu": 1.1}
"""Upper bounds on the slope: gelu' peaks at 1.1290 (x = 1.42), silu' at 1.0998 (x = 2.40)."""


def gated(x: Parts, argument: Parts) -> Parts:
    """x σ(argument): with gate (g, h) the difference is (a + r)(g + h) - ag = a h + r (g + h).

    The gate is kept in logs, so that units far in its tail keep their relative size.
    """
    a, r = in_cube_range(argument.common), in_cube_range(argument.varying)
    gate, whole_gate = (from_logs(np.ones(()), log_sigmoid(value)) for value in (a, a + r))
    change = sigmoid_change(argument.varying, a, r)
    return Parts(
        product(x.common, gate),
        plus(product(x.common, change), product(whole_gate, x.varying)),
    )


def log_sigmoid(x: Array) -> Array:
    result: Array = -np.logaddexp(0.0, -x)
    return result


def sigmoid_change(difference: Scaled, a: Array, r: Array) -> Scaled:
    """σ(a + r) - σ(a) = sign(r) σ(high) σ(-low) (1 - e^-|r|), high and low the larger and smaller of a and a + r."""
    high, low = np.maximum(a, a + r), np.minimum(a, a + r)
    growth = expm1_scaled(Scaled(-np.abs(difference.mantissa), difference.exponent))
    change = from_logs(-np.sign(difference.mantissa), log_sigmoid(high) + log_sigmoid(-low))
    return product(change, growth)


def in_cube_range(x: Scaled) -> Array:
    values = x.value()
    if not np.abs(values).max(initial=0.0) < LARGEST_INPUT:
        raise InputError(
            "activations leave float range (above 1e90): lower --init-scale, add a --norm or use relu."
        )
    return values
