"""Rotary positions as trained models have them: each pair of features turns by an angle that grows with the position."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncli.maths.rounding import Floats, rounded


@dataclass(frozen=True, slots=True)
class Rotary:
    """Features j and j + width / 2 turn by position · base^(-2j / width)."""

    base: float
    width: int
    """How many of a head's features turn: the first so many."""


def turned(vectors: Floats, rotary: Rotary, dtype: str) -> Floats:
    """[position, feature] turned by their positions, every step rounded as the dtype rounds."""
    angle = angles(len(vectors), rotary)
    cosine, sine = rounded(np.cos(angle), dtype), rounded(np.sin(angle), dtype)
    half = rotary.width // 2
    left, right = vectors[:, :half], vectors[:, half : 2 * half]
    result = vectors.copy()
    result[:, :half] = difference(left * cosine, right * sine, dtype)
    result[:, half : 2 * half] = difference(right * cosine, -left * sine, dtype)
    return result


def turned_back(vectors: Floats, rotary: Rotary) -> NDArray[np.float64]:
    """The vectors that `turned` makes into these, in float64: rotations are their own transposes' inverses."""
    return turned(vectors[::-1], rotary, "float64")[::-1]


def angles(length: int, rotary: Rotary) -> NDArray[np.float64]:
    """[position, pair]"""
    speed = rotary.base ** (-np.arange(0, rotary.width, 2) / rotary.width)
    return np.outer(np.arange(length), speed)


def difference(left: Floats, right: Floats, dtype: str) -> Floats:
    return rounded(rounded(left, dtype) - rounded(right, dtype), dtype)
