"""Convex hulls: which points of a cloud are its corners?"""

import numpy as np
from numpy.typing import NDArray

from attncli.commands.reproduce.tasks import Examples, Sizes, Task

POINTS = 10
SIDE = 10.0
SHIFT = 3.3
"""Standard deviation of the shift of a whole cloud, along each axis."""


def convex_hull() -> Task:
    """10 uniform points of a square that is moved at random; label 1 where the point is a corner of their convex hull."""
    return Task(
        sample_labelled_points,
        length=POINTS,
        labels=2,
        vocabulary=None,
        sizes=Sizes(layers=6, heads=3, width=84),
        steps=800,
        learning_rate=1e-3,
        batch=32,
    )


def sample_labelled_points(stream: np.random.Generator, number: int) -> Examples:
    points = stream.uniform(0.0, SIDE, size=(number, POINTS, 2))
    points += stream.normal(scale=SHIFT, size=(number, 1, 2))
    return Examples(points.astype(np.float32), mark_hull_corners(points))


def mark_hull_corners(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """1 for a point that sees all others within a half plane: some gap between their directions exceeds π."""
    sequences, number, _ = points.shape
    others = points[:, None, :, :] - points[:, :, None, :]
    directions = np.arctan2(others[..., 1], others[..., 0])[:, ~np.eye(number, dtype=bool)]
    around = np.sort(directions.reshape(sequences, number, number - 1), axis=-1)
    gaps = np.diff(around, axis=-1, append=around[..., :1] + 2.0 * np.pi)
    found: NDArray[np.int64] = (gaps.max(axis=-1) > np.pi).astype(np.int64)
    return found
