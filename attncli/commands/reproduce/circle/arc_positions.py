"""The two arcs: positions of the pair of points at every step."""

import math

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array

RADIUS = 0.3
AROUND = 1000
"""Steps of a whole turn."""
PAIRS = AROUND // 2 - 1
"""Steps that are taught: each point walks half of the circle, and the second begins where the first one ends."""
STEP = 2.0 * RADIUS * math.sin(math.pi / AROUND)
"""Length of a step."""


def compute_arc_positions(steps: int) -> Array:
    """Positions of the points [step, point, 2]; after the training steps the circle continues."""
    angles = 2.0 * math.pi / AROUND * (np.arange(steps)[:, None] + np.array([0, PAIRS]))
    return RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
