"""Which keys of a generated text a copying head attends to: those that followed the same tokens before."""

from math import nan
from typing import TYPE_CHECKING

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


def find_keys_after_same_tokens(rows: MapStripRows, order: int) -> "Tensor":
    """[batch or 1, 1, query, key] bool: visible keys j ≤ i behind the same `order` - 1 tokens that end with query i's own."""
    assert rows.ids is not None
    width = rows.weights.shape[-1]
    place = rows.ids.new_ones(len(rows.ids)).cumsum(dim=0) - 1
    queries = slice(rows.first_query, rows.first_query + rows.row_count)
    keys = slice(rows.first_key, rows.first_key + width)
    found = place[keys] <= place[queries, None]
    for back in range(order - 1):
        own = rows.ids.roll(back).masked_fill(place < back, -1)
        before = rows.ids.roll(back + 1).masked_fill(place < back + 1, -2)
        found = found & (before[keys] == own[queries, None])
    return found[None, None] if rows.visible is None else found & rows.visible


def compute_distance_to_ngram_attention(rows: MapStripRows, order: int) -> "Tensor":
    """[batch, head, query]: total variation between a row and uniform attention to the keys that the estimator counts."""
    counted = find_keys_after_same_tokens(rows, order).to(rows.weights.dtype)
    many = counted.sum(dim=-1, keepdim=True)
    own = rows.weights / rows.row_sums[..., None]
    far: Tensor = (own - counted / many.clamp_min(1)).abs_().sum(dim=-1) / 2.0
    return far.masked_fill(many[..., 0] == 0, nan)


def has_copy_largest_weight(rows: MapStripRows) -> "Tensor":
    """[batch, head, query]: 1 where the copy's weight is above all others, 0 elsewhere; nan where there is no copy."""
    copy = find_keys_after_same_tokens(rows, 2)
    on = rows.weights.masked_fill(~copy, -1.0).amax(dim=-1)
    off = rows.weights.masked_fill(copy, -1.0).amax(dim=-1)
    hits: Tensor = (on > off).to(rows.weights.dtype)
    return hits.masked_fill(~copy.any(dim=-1), nan)
