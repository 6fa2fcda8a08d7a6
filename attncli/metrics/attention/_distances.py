"""How far away the weights of a strip's rows lie."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 128
"""Rows of which the keys between them are gone through one by one."""


def mean_distances(weights: "Tensor", place: "Tensor", first_key: int) -> "Tensor":
    """[batch, head, query]: Σ_j A_ij |i - j| of the queries at these places, of keys from the first one on."""
    result = weights.new_empty(weights.shape[:-1])
    key = weights.new_ones(weights.shape[-1]).cumsum(dim=0) + (first_key - 1)
    for start in range(0, len(place), BLOCK):
        block = slice(start, start + BLOCK)
        result[..., block] = sum_distances_past_block(weights[..., block, :], place[block], key)
    return result


def sum_distances_past_block(weights: "Tensor", place: "Tensor", key: "Tensor") -> "Tensor":
    """Beyond the block, |i - j| is the way to its edge, the same for all keys there, and the way from the edge to j."""
    first, last = place[0], place[-1]
    past, future = key < first, key > last
    beyond = weights @ (past * (first - key) + future * (key - last))
    ahead = weights @ future.to(key.dtype) if bool(future.any()) else 0.0
    start, stop = int(past.sum()), int((~future).sum())
    near = weights[..., start:stop]
    within = (near * (place[:, None] - key[start:stop]).abs()).sum(dim=-1)
    behind = weights.sum(dim=-1) - near.sum(dim=-1) - ahead
    return beyond + within + behind * (place - first) + ahead * (last - place)
