"""The keys that each query sees: a span of keys for each, wherever the mask is one."""

from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capture.softmax_attention.rowwise_masks import RowwiseMask, find_keys_shown_by_mask
from attncli.metrics.attention._row_block_of_maps import sum_diagonals
from attncli.metrics.attention._row_statistics import VisibleKeys

ELEMENTS = 2**18
"""Numbers of a mask that are read at a time."""


class KeySpans(NamedTuple):
    """A span of keys for each query."""

    first: Tensor
    """[batch or 1, query]: the first key."""
    stop: Tensor
    """[batch or 1, query]: the one after the last."""
    keys: int

    def count_visible_keys(self) -> VisibleKeys:
        first, stop, queries = self.first, self.stop, self.first.shape[1]
        place, offsets = torch.arange(queries) + self.keys, queries + self.keys - 1
        alike = bool((first == first[:1]).all()) and bool((stop == stop[:1]).all())
        return VisibleKeys(
            (stop - first)[:, None].float(),
            (first == 0)[:, None],
            count_spans_covering_each_key(first, stop, self.keys),
            count_spans_covering_each_key(place - stop, place - first, offsets),
            torch.stack([first[0], stop[0]], dim=-1) if alike else None,
        )

    def build_span_bounds_tensor(self) -> Tensor:
        """[batch or 1, query, 2] int32."""
        return torch.stack([self.first, self.stop], dim=-1).int().contiguous()


def count_spans_covering_each_key(first: Tensor, stop: Tensor, size: int) -> Tensor:
    """[item, 1, place]: how many of an item's spans contain each place, in float64."""
    ones = torch.ones_like(first, dtype=torch.float64)
    steps = ones.new_zeros((len(first), size + 1))
    steps.scatter_add_(1, first, ones).scatter_add_(1, stop, -ones)
    return steps.cumsum(dim=1)[:, None, :size]


def find_visible_spans(mask: Tensor | None, queries: int, keys: int) -> KeySpans | None:
    """The spans, on the CPU, of an additive mask [batch or 1, 1, query or 1, key] that is 0 on one span of each row.

    It hides the rest. None for any other mask, also where a query sees no key: eager attention makes such a row uniform.
    """
    if mask is None:
        first = torch.zeros((1, queries), dtype=torch.int64)
        return KeySpans(first, first + keys, keys)
    shape = mask.shape
    if mask.dim() != 4 or shape[1] != 1 or shape[2] not in (1, queries) or shape[3] != keys:
        return None
    if not mask.dtype.is_floating_point:
        return None
    parts = []
    step = max(1, ELEMENTS // (shape[0] * keys))
    for start in range(0, shape[2], step):
        found = find_spans_of_mask_rows(slice_mask_rows(mask, start, min(start + step, shape[2])))
        if found is None:
            return None
        parts.append(found)
    spans = torch.cat(parts, dim=1).cpu().expand(-1, queries, -1)
    return KeySpans(spans[..., 0], spans[..., 1], keys)


def slice_mask_rows(mask: Tensor, start: int, stop: int) -> Tensor:
    if isinstance(mask, RowwiseMask):
        return mask.compute_mask_rows(start, stop)
    return mask if mask.shape[2] == 1 else mask[:, :, start:stop]


def find_spans_of_mask_rows(rows: Tensor) -> Tensor | None:
    """[batch or 1, query, 2] of rows [batch or 1, 1, query, key]."""
    shown = rows[:, 0] == 0.0
    hidden = rows[:, 0] <= torch.finfo(rows.dtype).min / 2
    first, stop = find_first_and_last_visible_keys(shown)
    whole = (stop - first == shown.sum(dim=-1)) & shown.any(dim=-1)
    known = bool(whole.all()) and bool((shown | hidden).all())
    return torch.stack([first, stop], dim=-1) if known else None


class RowSpans:
    """The span of keys that each query of one attention sees, from its rows: strip by strip."""

    def __init__(self, queries: int, keys: int) -> None:
        self.shape = (queries, keys)
        self.spans = torch.tensor([[0, keys]]).repeat(queries, 1)
        self.gaps = False
        """Whether some query's keys have gaps, or items of the batch see other keys."""

    def record_visible_keys_of_rows(
        self, visible: Tensor, first_query: int, first_key: int = 0
    ) -> None:
        """Add rows [batch or 1, 1, query, key] bool, from this query and key on."""
        rows = visible[0, 0].cpu()
        own = self.spans[first_query : first_query + len(rows)]
        own[:, 0], own[:, 1] = find_first_and_last_visible_keys(rows)
        self.gaps |= not torch.equal(own[:, 1] - own[:, 0], rows.sum(dim=-1))
        self.gaps |= len(visible) > 1 and not bool((visible == visible[:1]).all())
        own += first_key

    def find_spans_without_gaps(self) -> Tensor | None:
        """[query, 2]: the first visible key of each query and the one after the last; None where there are gaps."""
        return None if self.gaps else self.spans


class CountedKeys:
    """Counts what any mask shows, a strip of rows at a time."""

    def __init__(self, queries: int, keys: int) -> None:
        self.queries, self.keys = queries, keys
        self.counts: list[Tensor] = []
        self.spans = RowSpans(queries, keys)
        self.sees_first: list[Tensor] = []
        self.per_key = self.per_offset = torch.zeros((), dtype=torch.float64)

    def count_keys_of_mask_rows(self, mask: Tensor, start: int, stop: int) -> Tensor:
        """Count rows start … stop; [batch or 1, 1, query, key] bool: what they see."""
        found = find_keys_shown_by_mask(mask, self.keys)
        if found is None:
            found = torch.ones((1, 1, 1, self.keys), dtype=torch.bool)
        visible = found.expand(-1, -1, stop - start, -1)
        sums = sum_diagonals(visible.float())
        after = self.queries - start - sums.shape[-1] + self.keys - 1
        self.per_offset = self.per_offset + torch.nn.functional.pad(sums, (start, after))
        self.per_key = self.per_key + visible.sum(dim=-2).double()
        self.counts.append(visible.sum(dim=-1))
        self.spans.record_visible_keys_of_rows(visible, start)
        self.sees_first.append(visible[..., 0])
        return visible

    def count_visible_keys(self) -> VisibleKeys:
        seen = torch.cat(self.counts, dim=-1).float()
        sees_first = torch.cat(self.sees_first, dim=-1)
        return VisibleKeys(
            seen, sees_first, self.per_key, self.per_offset, self.spans.find_spans_without_gaps()
        )


def find_first_and_last_visible_keys(shown: Tensor) -> tuple[Tensor, Tensor]:
    """[…]: the first key of […, key] that is shown, and the one after the last."""
    bits = shown.to(torch.uint8)
    return bits.argmax(dim=-1), bits.shape[-1] - bits.flip(-1).argmax(dim=-1)
