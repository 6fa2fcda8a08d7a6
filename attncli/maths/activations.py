"""Token-wise functions on (common, residual): f(c) and f(c + R) - f(c), the difference without cancellation.

relu is piecewise linear and exact at any magnitude. gelu and silu are x·σ(s(x)); everything about them follows from

    σ(a + r) - σ(a) = σ(a + r) σ(-a) (1 - e^-r)
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
    common, residual = x
    a, r = aligned(common, residual.exponent), residual.mantissa
    difference = np.where(a > 0.0, np.maximum(r, -a), np.maximum(a + r, 0.0))
    return Parts(
        scaled(np.maximum(common.mantissa, 0.0), common.exponent),
        scaled(difference, residual.exponent),
    )


def silu(x: Parts) -> Parts:
    """x σ(x)"""
    return self_gated(x, x)


GELU_SLOPE, GELU_CUBE = 2.0 * np.sqrt(2.0 / np.pi), 0.044715


def gelu(x: Parts) -> Parts:
    """x/2 (1 + tanh(√(2/π)(x + 0.044715 x³))) = x σ(2√(2/π)(x + 0.044715 x³))"""
    a = plain(x.common)
    total = a + plain(x.residual)
    steepness = 1.0 + GELU_CUBE * (a * a + a * total + total * total)
    return self_gated(
        x,
        Parts(
            scaled(GELU_SLOPE * (a + GELU_CUBE * a**3)),
            times(x.residual, GELU_SLOPE * steepness),
        ),
    )


ACTIVATIONS: dict[str, Callable[[Parts], Parts]] = {"relu": relu, "gelu": gelu, "silu": silu}

STEEPEST = {"relu": 1.0, "gelu": 1.13, "silu": 1.1}
"""Upper bounds on the slope: gelu' peaks at 1.1290 (x = 1.42), silu' at 1.0998 (x = 2.40)."""


def self_gated(x: Parts, argument: Parts) -> Parts:
    """x σ(argument)"""
    return multiplied(x, sigmoid(argument))


def multiplied(first: Parts, second: Parts) -> Parts:
    """(a + r)(b + s) - ab = a s + (b + s) r"""
    whole = scaled(plain(second.common) + plain(second.residual))
    return Parts(
        product(first.common, second.common),
        plus(product(first.common, second.residual), product(whole, first.residual)),
    )


def sigmoid(x: Parts) -> Parts:
    """1/(1 + e^-x), its difference as sign(r) σ(a + r) σ(-a) e^max(-r, 0) (1 - e^-|r|)."""
    a, r = plain(x.common), plain(x.residual)
    logs = np.maximum(-r, 0.0) - np.logaddexp(0.0, -(a + r)) - np.logaddexp(0.0, a)
    growth = expm1_scaled(Scaled(-np.abs(x.residual.mantissa), x.residual.exponent))
    sign = -np.sign(x.residual.mantissa)
    return Parts(scaled(np.exp(-np.logaddexp(0.0, -a))), product(from_logs(sign, logs), growth))


def plain(x: Scaled) -> Array:
    values = x.value()
    if not np.abs(values).max(initial=0.0) < LARGEST_INPUT:
        raise InputError(
            "activations leave float range (above 1e90): lower --init-scale, add a --norm or use relu."
        )
    return values
