from typing import TYPE_CHECKING

from attncli.metrics.attention import measure
from attncli.metrics.attention._rows import Rows

if TYPE_CHECKING:
    from torch import Tensor


@measure("tokens", needs=("same tokens",))
def distance(rows: Rows) -> "Tensor":
    """Mean over queries of Σ_j A_ij |i - j|: how far away a head looks.

    0: at the token itself. Uniform attention has (n - 1)/4 if it is causal, (n² - 1)/(3n) if not.
    """
    place = rows.positions()
    key = rows.weights.new_ones(rows.weights.shape[-1]).cumsum(dim=0) + (rows.first_key - 1)
    first, last = place[0], place[-1]
    past, future = key < first, key > last
    # |i - j| is the way to the strip's edge, which is one number for all keys beyond it, and the way from there to j
    beyond = rows.weights @ (past * (first - key) + future * (key - last))
    ahead = rows.weights @ future.to(key.dtype) if bool(future.any()) else 0.0
    start, stop = int(past.sum()), int((~future).sum())
    near = rows.weights[..., start:stop]
    within = (near * (place[:, None] - key[start:stop]).abs()).sum(dim=-1)
    behind = rows.sums - near.sum(dim=-1) - ahead
    return beyond + within + behind * (place - first) + ahead * (last - place)
