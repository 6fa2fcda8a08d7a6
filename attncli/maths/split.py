"""A hidden state as a common row and a residual: X = 1c^T + R, each with its own magnitude.

Measuring X - 1x̄^T by subtraction stops at 1e-16 of X; carried apart, R keeps all its digits at any size. Every step of
a network maps (c, R) to (c', R') by formulas in which R never meets c in a subtraction.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attncli.maths.scaled import (
    NEGLIGIBLE,
    Array,
    Scaled,
    aligned,
    common_exponent,
    matmul,
    plus,
    scaled,
    shift,
)


class Parts(NamedTuple):
    """A common part [feature] and a residual [token, feature] of anything that is linear in X."""

    common: Scaled
    residual: Scaled

    def __matmul__(self, weights: Array) -> "Parts":
        return Parts(matmul(self.common, weights), matmul(self.residual, weights))


class Split:
    """X = 1c^T + R with the residual's token mean folded into c, so that R is centred."""

    def __init__(self, common: Scaled, residual: Scaled) -> None:
        mean = residual.mantissa.mean(axis=0)
        self.common = plus(common, scaled(mean, residual.exponent))
        self.residual = scaled(residual.mantissa - mean, residual.exponent)

    @classmethod
    def of(cls, states: Array) -> "Split":
        """From plain states [token, feature], exactly: the common row is a rounded mean, R what remains."""
        mean = states.mean(axis=0)
        return cls(scaled(mean), scaled(states - mean))

    @property
    def parts(self) -> Parts:
        return Parts(self.common, self.residual)

    @property
    def tokens(self) -> int:
        return len(self.residual.mantissa)

    @cached_property
    def states(self) -> Scaled:
        """X itself, where R may vanish beside c."""
        top = common_exponent(self.common, self.residual)
        return scaled(aligned(self.common, top) + aligned(self.residual, top), top)

    def is_finite(self) -> bool:
        return bool(
            np.isfinite(self.common.mantissa).all() and np.isfinite(self.residual.mantissa).all()
        )


def with_bias(parts: Parts, bias: Array | None) -> Parts:
    """A bias is the same for every token: it joins the common part."""
    return parts if bias is None else parts._replace(common=plus(parts.common, scaled(bias)))


def together(first: Split, second: Parts) -> Split:
    """A skip: both parts add."""
    return Split(plus(first.common, second.common), plus(first.residual, second.residual))


def normalised(state: Split, epsilon: float, centre: bool) -> Split:
    """Layer norm (`centre`) or RMS norm of every token, without gain or bias.

    With v = mean(c²) and R = αc + ρ, ρ ⊥ c, the difference N(c + R) - N(c) is

        ρ/σ_y + c (α [ε + T] - mean(ρ²)) / (σ_c σ_y (σ_c + σ_y)),    T = σ_c σ_y - (1 + α) v

    where σ_c² = v + ε and σ_y² = mean((c + R)²) + ε. Written so, the part of R along c, which a norm removes almost
    wholly, does not have to cancel; T is a sum of positive terms over a sum of positive terms where 1 + α > 0.
    """
    common, residual = (centred(part) if centre else part for part in state.parts)
    top = common_exponent(common, residual)
    if epsilon and 2 * (top - NEGLIGIBLE) < math.log2(epsilon):
        # X is so far below √ε that the norm only divides by √ε.
        return Split(
            *(
                scaled(part.mantissa / np.sqrt(epsilon), part.exponent)
                for part in (common, residual)
            )
        )
    c, r = aligned(common, top), residual.mantissa
    small = float(shift(np.ones(1), residual.exponent - top)[0])
    epsilon = float(shift(np.full(1, epsilon), -2 * top)[0])
    along, across = projection(r, c)
    v = float(np.mean(c * c))
    across_square = small * np.mean(across * across, axis=1, keepdims=True)
    ratio = 1.0 + small * along
    sigma_c = np.sqrt(v + epsilon)
    sigma_y = np.sqrt(ratio**2 * v + small * across_square + epsilon)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(
            ratio > 0.0,
            (v * (small * across_square + epsilon) + epsilon * sigma_y**2)
            / (sigma_c * sigma_y + ratio * v),
            sigma_c * sigma_y - ratio * v,
        )
    factor = (along * (epsilon + gap) - across_square) / (sigma_c * sigma_y * (sigma_c + sigma_y))
    return Split(
        scaled(c / sigma_c), scaled(across / sigma_y + c * factor, residual.exponent - top)
    )


def centred(part: Scaled) -> Scaled:
    """Minus the mean over features."""
    return scaled(part.mantissa - part.mantissa.mean(axis=-1, keepdims=True), part.exponent)


def projection(residual: Array, common: Array) -> tuple[Array, Array]:
    """α [token, 1] and ρ with residual = α c + ρ and ρ ⊥ c; projected twice, so that ρ is clean even if tiny."""
    square = float(common @ common)
    along = np.zeros((len(residual), 1))
    if square == 0.0:
        return along, residual
    for _ in range(2):
        step = (residual @ common / square)[:, None]
        along, residual = along + step, residual - step * common
    return along, residual
