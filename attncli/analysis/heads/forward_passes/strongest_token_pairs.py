"""The strongest query → key pairs of each head, collected while its maps are captured in strips.

A pair's strength is its weight minus that of uniform attention over the same visible keys: by
weight alone the first token of a causal text, which sees only itself, would lead every head's list.
Each key is named once, with the query that looks at it most: a sink would fill the list otherwise.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capture import Strip


class HeadPairs(NamedTuple):
    """The strongest pairs of the heads of one attention, strongest first."""

    weights: Tensor
    """[head, rank]"""
    even: Tensor
    """The same of uniform attention; infinite where no query sees the key."""
    queries: Tensor
    keys: Tensor
    others: Tensor
    """[head, rank]: the mean weight that the other queries give the key: large where it is a sink; nan where no other
    query sees it."""
    shape: tuple[int, int, int]
    """Windows into which the attention is divided, of more than one there are no pairs; queries and keys of the map."""


class StrongestPairs:
    """For every head and key, the query furthest above uniform attention; memory grows with keys
    only."""

    def __init__(self, strip: Strip) -> None:
        windows, heads = strip.weights.shape[:2]
        self.shape = (windows, strip.queries, strip.keys)
        current = (heads, strip.keys)
        self.weights = torch.zeros(current, dtype=torch.float64)
        self.even = torch.full(current, torch.inf, dtype=torch.float64)
        self.queries = torch.zeros(current, dtype=torch.long)
        self.received_mass = torch.zeros(current, dtype=torch.float64)
        self.queries_per_key = torch.zeros(strip.keys, dtype=torch.float64)
        """How many queries see each key."""

    def accumulate_map_rows(self, strip: Strip) -> None:
        """Strips come in order; of equal queries the first one stays."""
        if self.shape[0] > 1:
            return
        weights, even = strip.weights[0], uniform_attention_weights(strip)
        above = weights - even[:, None]
        if strip.visible is not None:
            above.masked_fill_(~strip.visible[0, 0], -torch.inf)
        best, row = above.max(dim=1)
        part = slice(strip.first_key, strip.first_key + weights.shape[-1])
        row, best = row.cpu(), best.double().cpu()
        self.received_mass[:, part] += weights.sum(dim=1).double().cpu()
        seen = weights.shape[1] if strip.visible is None else strip.visible[0, 0].sum(dim=0).cpu()
        self.queries_per_key[part] += seen
        better = best > self.weights[:, part] - self.even[:, part]
        found = weights.gather(1, row.to(weights.device)[:, None])[:, 0].double().cpu()
        for current, new in (
            (self.weights, found),
            (self.even, even.double().cpu()[row]),
            (self.queries, row + strip.first_query),
        ):
            current[:, part] = torch.where(better, new, current[:, part])

    def select_strongest_pairs(self, most: int) -> HeadPairs:
        """The keys in their order; of equals the first."""
        above = self.weights - self.even
        keys = above.argsort(dim=1, descending=True, stable=True)[:, :most]
        current = (self.weights, self.even, self.queries)
        weights, even, queries = (values.gather(1, keys) for values in current)
        others = (self.received_mass.gather(1, keys) - weights) / (self.queries_per_key[keys] - 1)
        others.masked_fill_(self.queries_per_key[keys] <= 1, torch.nan)
        return HeadPairs(weights, even, queries, keys, others, self.shape)


def uniform_attention_weights(strip: Strip) -> Tensor:
    """[query]: the weight of each visible key under uniform attention."""
    if strip.visible is None:
        return strip.weights.new_full((strip.weights.shape[2],), strip.total / strip.keys)
    seen = strip.visible[0, 0].sum(dim=-1)
    return strip.total / seen.clamp_min(1).to(strip.weights.dtype)
