"""Fixed unit-norm keys: one vector per token, far from one another, independent of any pattern.

A pattern's rows then need only a level each: the smallest that keeps the mass off the support below the request.
"""

import numpy as np
from numpy.typing import NDArray

from attncli.errors import require_known_names
from attncli.maths.dtype_rounding import Floats

Array = NDArray[np.float64]

KINDS = ("gaussian", "spread")
SPREAD_LIMIT = 4096
"""Tokens above which spreading the keys would cost more than the fit: each round is quadratic."""
ROUNDS = 150
"""Of spreading."""
LEVEL_ROUNDS = 60
CLOSE = 1e-3
"""Natural-log units above the limit at which the search for a level stops: callers keep a larger margin."""


def make_pattern_independent_keys(
    kind: str, length: int, d: int, rng: np.random.Generator
) -> Array:
    """[token, d] unit vectors: `gaussian` in random directions, `spread` pushed apart (d = 2: the circle)."""
    require_known_names("keys", [kind], KINDS)
    if kind == "spread" and d == 2:
        return place_keys_on_moment_curve(length, 1)
    start = scale_rows_to_unit_length(rng.normal(size=(length, d)))
    return (
        spread_points_on_sphere(start)
        if kind == "spread" and d > 2 and length <= SPREAD_LIMIT
        else start
    )


def scale_rows_to_unit_length(vectors: Array) -> Array:
    result: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return result


def place_keys_on_moment_curve(length: int, harmonics: int) -> Array:
    """(cos t, sin t, …, cos kt, sin kt) at t = 2π token / length: the trigonometric moment curve."""
    angle = 2.0 * np.pi * np.arange(length) / length
    waves = np.outer(angle, np.arange(1, harmonics + 1))
    return np.stack([np.cos(waves), np.sin(waves)], axis=2).reshape(length, 2 * harmonics)


def spread_points_on_sphere(points: Array) -> Array:
    """Push points on the sphere apart: repulsion ∝ e^{β cos}, β rising until only nearest neighbours count.

    Each point moves away from the softmax mean of the others by a shrinking part of the typical distance
    n^{-1/(d-1)}; the sharpness β follows that distance, so that a neighbour at it weighs as much at every n.
    """
    length, d = points.shape
    distance = 2.0 * length ** (-1.0 / (d - 1))
    for step in range(ROUNDS):
        progress = step / ROUNDS
        sharpness = (1.0 + 15.0 * progress) / distance**2
        points = scale_rows_to_unit_length(
            points
            + 0.5 * (1.0 - progress) * distance * compute_repulsion_directions(points, sharpness)
        )
    return points


def compute_repulsion_directions(points: Array, sharpness: float) -> Array:
    """Unit-size directions from the weighted mean of the neighbours to the point."""
    cosine = points @ points.T
    np.fill_diagonal(cosine, -np.inf)
    nearest = cosine.max()
    weights = np.exp(sharpness * (cosine - nearest))
    total = weights.sum(axis=1, keepdims=True)
    push = total * points - weights @ points
    longest = float(np.linalg.norm(push, axis=1).max())
    result: Array = push / max(longest, 1e-300)
    return result


def raise_logit_levels_of_supports(drop: Floats, rise: Floats, level: Array, leak: float) -> Array:
    """Raise each level c until log Σ_j e^{b_j - c (1 - a_j)} ≤ leak, for drop = 1 - a > 0 and rise = b.

    Newton from the left on a convex, falling function: it never overshoots.
    """
    rows = np.arange(len(level))
    level = level.copy()
    for _ in range(LEVEL_ROUNDS):
        some = slice(None) if len(rows) == len(level) else rows
        logits = rise[some] - drop[some] * level[rows, None].astype(drop.dtype)
        top = np.maximum(logits.max(axis=1, keepdims=True), -1e30)
        weights = np.exp(logits - top)
        total = np.maximum(weights.sum(axis=1), 1e-30)
        excess = np.log(total) + top[:, 0] - leak
        slope = np.einsum("ij,ij->i", weights, drop[some]) / total
        above = excess > CLOSE
        if not above.any():
            break
        rows = rows[above]
        level[rows] += excess[above] / np.maximum(slope[above], 1e-300)
    return level
