"""Arithmetic shared by the kinds of map."""

import math

import numpy as np
from numpy.typing import NDArray

from attncli.errors import UsageError

Map = NDArray[np.float64]


def softmax_rows(logits: Map) -> Map:
    weights: Map = np.exp(logits - logits.max(axis=1, keepdims=True))
    return normalise_rows(weights)


def normalise_rows(weights: Map) -> Map:
    """Rows divided by their sums."""
    result: Map = weights / weights.sum(axis=1, keepdims=True)
    return result


def mask_future(logits: Map, causal: bool) -> Map:
    """-inf above the diagonal where the map is causal."""
    return np.where(np.tri(len(logits), dtype=bool), logits, -math.inf) if causal else logits


HIGHEST = 1e100
"""Of a parameter: its products with a few drawn numbers are still finite."""


def require_number_in_range(name: str, value: float, lowest: float) -> None:
    if not lowest <= value <= HIGHEST:
        raise UsageError(f"{name} must be from {lowest:g} to {HIGHEST:g}, not {value:g}.")


def require_share(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name} must lie between 0 and 1, not {value:g}.")
