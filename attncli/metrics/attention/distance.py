from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._strip_rows import StripRows

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 128
"""Rows of which the keys between them are gone through one by one."""


@metric("tokens", needs=("same tokens",))
def distance(rows: StripRows) -> "Tensor":
    """Mean over queries of Σ_j A_ij |i - j|: how far away a head looks.

    0: at the token itself. Uniform attention has (n - 1)/4 if it is causal, (n² - 1)/(3n) if not.
    """
    result = rows.weights.new_empty(rows.weights.shape[:-1])
    for start in range(0, rows.size, BLOCK):
        block = slice(start, min(start + BLOCK, rows.size))
        result[..., block] = block_distance(rows, block)
    return result


def block_distance(rows: StripRows, block: slice) -> "Tensor":
    """Beyond the block, |i - j| is the way to its edge, the same for all keys there, and the way from the edge to j."""
    weights, place = rows.weights[..., block, :], rows.positions()[block]
    key = rows.weights.new_ones(weights.shape[-1]).cumsum(dim=0) + (rows.first_key - 1)
    first, last = place[0], place[-1]
    past, future = key < first, key > last
    beyond = weights @ (past * (first - key) + future * (key - last))
    ahead = weights @ future.to(key.dtype) if bool(future.any()) else 0.0
    start, stop = int(past.sum()), int((~future).sum())
    near = weights[..., start:stop]
    within = (near * (place[:, None] - key[start:stop]).abs()).sum(dim=-1)
    behind = rows.sums[..., block] - near.sum(dim=-1) - ahead
    return beyond + within + behind * (place - first) + ahead * (last - place)
