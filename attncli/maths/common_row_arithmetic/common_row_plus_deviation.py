"""A hidden state X = 1c^T + V: a common row and a deviation, each with its own exponent.

Measuring X - 1x̄^T by subtraction stops at 1e-16 of X; carried apart, V keeps all its digits at any size. Every step of
a network maps (c, V) to (c', V') by formulas in which V never meets c in a subtraction.

Where tokens differ much nothing is gained by a common row, and a token far smaller than the others
would lose digits beside it: such a state is *plain*, c = 0 and V = X. `to_split_form` and
`to_plain_form` change from one form to the other.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    BEYOND_FLOATS,
    NEGLIGIBLE,
    Array,
    ScaledArray,
    align_scaled_to_exponent,
    find_common_exponent,
    make_scaled_array,
    scale_by_power_of_two,
)

SMALLEST = 1e-300
"""Replaces ε where the state is so large that ε underflows, so that a zero token stays zero."""


class SplitParts(NamedTuple):
    """The common part [feature] and the varying part [token, feature] of anything computed from a state."""

    common: ScaledArray
    varying: ScaledArray

    def __matmul__(self, weights: Array) -> "SplitParts":
        return SplitParts(self.common @ weights, self.varying @ weights)


class SplitState:
    """X = 1c^T + V; in the split form V is centred, so that it is the residual to the token mean."""

    def __init__(self, common: ScaledArray, varying: ScaledArray, plain: bool) -> None:
        self.plain = plain
        if plain:
            self.common = make_scaled_array(np.zeros_like(common.mantissa))
            self.varying = common + varying
        else:
            mean = varying.mantissa.mean(axis=0)
            self.common = common + make_scaled_array(mean, varying.exponent)
            self.varying = varying.map_linearly(lambda each: each - mean)
        self.parts = SplitParts(self.common, self.varying)
        self.tokens = len(self.varying.mantissa)

    @classmethod
    def from_states(cls, states: Array) -> "SplitState":
        """From plain states [token, feature]."""
        return cls(
            make_scaled_array(np.zeros(states.shape[1])), make_scaled_array(states), plain=True
        )

    @cached_property
    def states(self) -> ScaledArray:
        """X itself, where V may vanish against c."""
        return self.common + self.varying

    @cached_property
    def residual_to_token_mean(self) -> ScaledArray:
        """X - 1x̄^T."""
        return self.to_split_form().varying if self.plain else self.varying

    def to_split_form(self) -> "SplitState":
        """Convert to the split form, exactly: c is a rounded mean, V the rest."""
        if not self.plain:
            return self
        mean = self.varying.mantissa.mean(axis=0)
        rest = self.varying.map_linearly(lambda each: each - mean)
        return SplitState(make_scaled_array(mean, self.varying.exponent), rest, plain=False)

    def to_plain_form(self) -> "SplitState":
        """Convert to the plain form."""
        return self if self.plain else SplitState(self.common, self.varying, plain=True)

    @property
    def log2_residual_relative_to_states(self) -> float:
        """log2 of the residual's largest entry relative to that of X, to the next whole number."""
        if self.residual_to_token_mean.is_zero():
            return -math.inf
        return self.residual_to_token_mean.exponent - self.states.exponent

    def is_finite(self) -> bool:
        return bool(
            np.isfinite(self.common.mantissa).all() and np.isfinite(self.varying.mantissa).all()
        )


def add_bias_to_common_part(parts: SplitParts, bias: Array | None) -> SplitParts:
    """Add a bias, the same for every token, to the common part."""
    return parts if bias is None else parts._replace(common=parts.common + make_scaled_array(bias))


def add_skip_connection(first: SplitState, second: SplitParts) -> SplitState:
    """Add a skip connection: both parts add."""
    return SplitState(first.common + second.common, first.varying + second.varying, first.plain)


def normalise_features_of_tokens(state: SplitState, epsilon: float, centre: bool) -> SplitState:
    """Layer norm (`centre`) or RMS norm of every token, without gain or bias.

    With v = mean(c²) and V = αc + ρ, ρ ⊥ c, the difference N(c + V) - N(c) is

        ρ/σ_y + c (α [ε + T] - mean(ρ²)) / (σ_c σ_y (σ_c + σ_y)),    T = σ_c σ_y - (1 + α) v

    where σ_c² = v + ε and σ_y² = mean((c + V)²) + ε. Written so, the part of V along c, which a norm removes almost
    wholly, does not have to cancel; T is a sum of positive terms over a sum of positive terms where 1 + α > 0.
    """
    common, varying = (
        subtract_mean_over_features(part) if centre else part for part in state.parts
    )
    top = find_common_exponent(common, varying)
    if epsilon and 2 * (top - NEGLIGIBLE) < math.log2(epsilon):
        # X is so far below √ε that the norm only divides by √ε.
        root = 1.0 / math.sqrt(epsilon)
        return SplitState(common * root, varying * root, state.plain)
    if common.is_zero():
        return SplitState(common, normalise_by_root_mean_square(varying, top, epsilon), state.plain)
    epsilon = max(epsilon * compute_power_of_two(-2 * top), SMALLEST if epsilon else 0.0)
    c, size = align_scaled_to_exponent(common, top), compute_power_of_two(varying.exponent - top)
    along, across = project_on_common_row(varying.mantissa, c)
    v = float(np.mean(c * c))
    across_square = size * np.mean(across * across, axis=1, keepdims=True)
    ratio = 1.0 + size * along
    sigma_c = np.sqrt(v + epsilon)
    sigma_y = np.sqrt(ratio**2 * v + size * across_square + epsilon)
    gap = compute_layer_norm_denominator_change(
        v, size * across_square, epsilon, ratio, sigma_c, sigma_y
    )
    factor = (along * (epsilon + gap) - across_square) / (sigma_c * sigma_y * (sigma_c + sigma_y))
    changed = make_scaled_array(across / sigma_y + c * factor, varying.exponent - top)
    return SplitState(make_scaled_array(c / sigma_c), changed, state.plain)


def normalise_by_root_mean_square(varying: ScaledArray, top: int, epsilon: float) -> ScaledArray:
    """Divide rows by √(mean of squares + ε), each in its own units: next to a large row a small one's squares
    underflow."""
    rows = align_scaled_to_exponent(varying, top)
    _, own = np.frexp(np.abs(rows).max(axis=1, keepdims=True))
    rows = np.ldexp(rows, -own)
    shared = max(-BEYOND_FLOATS, min(BEYOND_FLOATS, -2 * top))
    with np.errstate(over="ignore", under="ignore"):
        added = np.maximum(np.ldexp(epsilon, shared - 2 * own), SMALLEST if epsilon else 0.0)
    return make_scaled_array(rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True) + added))


def compute_layer_norm_denominator_change(
    v: float, across_square: Array, epsilon: float, ratio: Array, sigma_c: Array, sigma_y: Array
) -> Array:
    """T = σ_c σ_y - (1 + α) v without cancellation."""
    product = sigma_c * sigma_y
    positive = v * (across_square + epsilon) + epsilon * sigma_y**2
    return np.where(
        ratio > 0.0, positive / (product + np.abs(ratio) * v), product + np.abs(ratio) * v
    )


def compute_power_of_two(exponent: int) -> float:
    """2^exponent as a plain number, 0 or inf outside float range."""
    return float(scale_by_power_of_two(np.ones(1), exponent)[0])


def subtract_mean_over_features(part: ScaledArray) -> ScaledArray:
    """Minus the mean over features."""
    return part.map_linearly(lambda each: each - each.mean(axis=-1, keepdims=True))


def project_on_common_row(varying: Array, common: Array) -> tuple[Array, Array]:
    """α [token, 1] and ρ with V = α c + ρ and ρ ⊥ c; projected twice, so that ρ is clean even if tiny."""
    square = float(common @ common)
    along = np.zeros((len(varying), 1))
    if square == 0.0:
        return along, varying
    for _ in range(2):
        step = (varying @ common / square)[:, None]
        along, varying = along + step, varying - step * common
    return along, varying
