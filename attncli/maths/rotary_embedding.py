"""Rotary positions: each pair of features turns by an angle proportional to the position."""

from dataclasses import dataclass

import numpy as np

from attncli.maths.dtype_rounding import Floats, round_to_dtype


@dataclass(frozen=True, slots=True)
class Rotary:
    """Features j and j + width / 2 turn by position · base^(-2j / width)."""

    base: float
    width: int
    """How many of a head's features turn: the first so many."""


def rotate_by_positions(vectors: Floats, rotary: Rotary, dtype: str) -> Floats:
    """[position, feature] turned by their positions, every step rounded as the dtype rounds."""
    return rotate_by_angles(vectors, compute_rotary_angles(len(vectors), rotary, dtype), dtype)


def undo_rotation_by_positions(vectors: Floats, rotary: Rotary) -> Floats:
    """Undo the rotation, in float64."""
    return rotate_by_angles(
        vectors, -compute_rotary_angles(len(vectors), rotary, "float64"), "float64"
    )


def compute_rotary_angles(length: int, rotary: Rotary, dtype: str) -> Floats:
    """[position, pair]; models in less than float64 compute them in float32."""
    kind = np.float64 if dtype == "float64" else np.float32
    speed = rotary.base ** (-np.arange(0, rotary.width, 2) / rotary.width)
    result: Floats = np.outer(np.arange(length, dtype=kind), speed.astype(kind))
    return result


def rotate_by_angles(vectors: Floats, angle: Floats, dtype: str) -> Floats:
    half = angle.shape[1]
    cosine, sine = round_to_dtype(np.cos(angle), dtype), round_to_dtype(np.sin(angle), dtype)
    left, right = vectors[:, :half], vectors[:, half : 2 * half]
    result = vectors.copy()
    result[:, :half] = subtract_in_dtype(left * cosine, right * sine, dtype)
    result[:, half : 2 * half] = subtract_in_dtype(right * cosine, -left * sine, dtype)
    return result


def subtract_in_dtype(left: Floats, right: Floats, dtype: str) -> Floats:
    return round_to_dtype(round_to_dtype(left, dtype) - round_to_dtype(right, dtype), dtype)
