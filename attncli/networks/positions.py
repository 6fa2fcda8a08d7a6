"""Rotary positions and masks."""

import numpy as np
from numpy.typing import NDArray

from attncli.maths.scaled import Array, Scaled, scaled
from attncli.networks.spec import ROPE_BASE


def angles(tokens: int, width: int) -> Array:
    """Position times frequency [token, width / 2]."""
    frequencies = ROPE_BASE ** (-2.0 * np.arange(width // 2) / width)
    return np.arange(tokens)[:, None] * frequencies


def rotated(vectors: Scaled, tokens: int) -> Scaled:
    """Every token's vector turned by its position; feature m is paired with m + width / 2."""
    return turned(vectors, *cosine_and_sine(tokens, vectors.mantissa.shape[-1]))


def rotation_since_start(vector: Scaled, tokens: int) -> Scaled:
    """The same vector turned by every position, minus the vector itself; cos - 1 = -2 sin²(angle/2)."""
    half = angles(tokens, vector.mantissa.shape[-1]) / 2.0
    return turned(vector, -2.0 * np.sin(half) ** 2, np.sin(2.0 * half))


def cosine_and_sine(tokens: int, width: int) -> tuple[Array, Array]:
    angle = angles(tokens, width)
    return np.cos(angle), np.sin(angle)


def turned(vectors: Scaled, cosine: Array, sine: Array) -> Scaled:
    first, second = np.split(vectors.mantissa, 2, axis=-1)
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    return scaled(np.concatenate(turned, axis=-1), vectors.exponent)


def visible_rows(tokens: int, window: int, rows: slice) -> NDArray[np.bool_]:
    """Boolean [query, key]: the query itself and the window - 1 keys before it."""
    behind = np.arange(tokens)[rows, None] - np.arange(tokens)
    return (behind >= 0) & (behind < window)
