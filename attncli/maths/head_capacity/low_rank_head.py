"""One head of rank r that picks the nearest of two tokens on the sphere as well as r of d directions tell: closed forms.

Our own derivation. With u = x_1 - x_2 and P the projection on r directions the head picks the wrong token where ⟨u, Py⟩ and
⟨u, y⟩ differ in sign. u is as likely in every direction of the plane of y and Py, so that happens with probability θ / π,
θ the angle between them; cos² θ = ‖Py‖² is Beta(r/2, (d - r)/2), whose θ has the density cos^(r-1) θ sin^(d-r-1) θ.
"""

import numpy as np

NODES = 400


def low_rank_head_error_rate(rank: int, dimension: int) -> float:
    """The probability that one hard head of this rank picks the farther token."""
    if rank >= dimension:
        return 0.0
    node, weight = np.polynomial.legendre.leggauss(NODES)
    angle = 0.25 * np.pi * (node + 1.0)
    density = weight * np.cos(angle) ** (rank - 1) * np.sin(angle) ** (dimension - rank - 1)
    return float((angle * density).sum() / density.sum() / np.pi)


def low_rank_head_mean_squared_error(rank: int, dimension: int) -> float:
    """Mean squared distance of the head's answer to the nearest of two tokens, when the answer is optimally drawn
    towards their mean.

    The answer is mean + c · half of the difference, of squared length 1/2 on average, with the right sign with probability
    1 - p: the least of (1 - 2 c (1 - 2p) + c²) / 2 over c. Without attention, c = 0, it is 1/2.
    """
    right = 1.0 - 2.0 * low_rank_head_error_rate(rank, dimension)
    return 0.5 * (1.0 - right**2)
