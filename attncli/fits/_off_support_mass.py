"""The smallest level that keeps the mass off the support below the request, row by row."""

import numpy as np
from numpy.typing import NDArray

from attncli.maths.rounding import Floats

Array = NDArray[np.float64]

ROUNDS = 60
CLOSE = 1e-3
"""Natural-log units above the limit at which the search stops: callers keep a larger margin."""


def raise_certificate_levels(drop: Floats, rise: Floats, level: Array, leak: float) -> Array:
    """Raise each level c until log Σ_j e^{b_j - c (1 - a_j)} ≤ leak, for drop = 1 - a > 0 and rise = b.

    Newton from the left on a convex, falling function: it never overshoots.
    """
    rows = np.arange(len(level))
    level = level.copy()
    for _ in range(ROUNDS):
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
