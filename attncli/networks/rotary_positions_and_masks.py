"""Rotary positions and masks."""

import numpy as np
from numpy.typing import NDArray

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    make_scaled_array,
)
from attncli.networks.network_spec import ROPE_BASE


def compute_rotary_angles_of_tokens(tokens: int, width: int) -> Array:
    """Position times frequency [token, width / 2]."""
    frequencies = ROPE_BASE ** (-2.0 * np.arange(width // 2) / width)
    return np.arange(tokens)[:, None] * frequencies


def apply_rotary_positions(vectors: ScaledArray, tokens: int) -> ScaledArray:
    """Vectors [head, token or 1, width] turned by position; feature m is paired with m + width / 2."""
    angle = compute_rotary_angles_of_tokens(tokens, vectors.mantissa.shape[-1])
    cosine, sine = np.cos(angle), np.sin(angle)
    first, second = np.split(vectors.mantissa, 2, axis=-1)
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    return make_scaled_array(np.concatenate(turned, axis=-1), vectors.exponent)


def make_sliding_window_mask(tokens: int, window: int, rows: slice) -> NDArray[np.bool_]:
    """Boolean [query, key]: the query itself and the window - 1 keys before it."""
    behind = np.arange(tokens)[rows, None] - np.arange(tokens)
    return (behind >= 0) & (behind < window)
