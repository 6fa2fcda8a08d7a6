"""Attention and its statistics in plain torch, a tile of heads and rows at a time, where there is no library.

The query is scaled beforehand, keys are hidden only where a tile's rows differ in what they see (on the diagonal of a
causal map), and a tile's scores and weights take the same memory as those of the tile before, so that whatever reads
them finds them in the processor's cache.
"""

from collections.abc import Iterator, Sequence
from math import nan
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capture.one_pass.attention_output_and_statistics import (
    MapVectors,
    Results,
    WrittenRows,
)
from attncli.capture.one_pass.attention_score_formula import Formula
from attncli.capture.softmax_attention.attention_interface import EagerCall
from attncli.capture.softmax_attention.map_statistics import ROWS, StatisticsRequest
from attncli.capture.softmax_attention.visible_key_spans import KeySpans
from attncli.metrics.attention._row_block_of_maps import (
    MapStripRows,
    entropy_from_logit_differences,
    sum_diagonals,
)

SCORES = 2**18
"""Of a tile: they and their weights stay in the processor's cache."""

TILE_ROWS = 64
"""Rows of a tile: with fewer, matrix products cost more per number."""


class Tile(NamedTuple):
    """Some rows of some heads of one item of a batch, and the keys that any of these rows sees."""

    item: int
    rows: slice
    keys: slice
    starts: Tensor
    """[query]: the first visible key."""
    stops: Tensor
    """[query]: the one after the last."""
    edges: Sequence[tuple[slice, Tensor]]
    """Columns that some rows see and others do not, and which of their cells [query, key] are hidden."""
    key_heads: slice = slice(None)
    heads: slice = slice(None)


class TiledAttention:
    """One attention by its formula, a tile at a time."""

    def __init__(
        self,
        call: EagerCall,
        formula: Formula,
        request: StatisticsRequest,
        spans: KeySpans | None,
        results: Results,
        vectors: MapVectors | None = None,
    ) -> None:
        self.call, self.formula, self.request = call, formula, request
        self.spans, self.results, self.vectors = spans, results, vectors
        self.query = call.query * formula.scale
        self.group = call.query.shape[1] // call.key.shape[1]
        """How many heads share a key."""
        self.rows = max(1, TILE_ROWS // self.group)
        results.write_largest_qkv_entries(call)

    @property
    def floats_per_tile(self) -> int:
        """How many numbers the scores and the weights of a tile are, at most."""
        return 2 * max(SCORES, self.rows * self.group * self.call.key_count)

    def compute_attention_rows(
        self,
        memory: Tensor,
        start: int,
        stop: int,
        bias: Tensor | None,
        written: WrittenRows | None,
    ) -> None:
        """Rows start … stop - 1 of all heads, with a bias [batch or 1, head or 1, query or 1, key] of these rows."""
        if written is not None:
            written.weights.zero_()
            if written.scored:
                written.scores.zero_()
        for tile in self.iter_attention_tiles(start, stop):
            own = None if bias is None else slice_bias_for_tile(bias, tile, start)
            scores, weights = self.compute_attention_tile(tile, own, memory)
            if written is not None:
                copy_tile_to_map_rows(written, tile, start, scores, weights)
            self.write_row_statistics(scores, weights, tile)

    def iter_attention_tiles(self, start: int, stop: int) -> Iterator[Tile]:
        for item in range(len(self.query)):
            for first in range(start, stop, self.rows):
                rows = slice(first, min(first + self.rows, stop))
                starts, stops = self.find_visible_key_spans(item, rows)
                keys = slice(int(starts.min()), int(stops.max()))
                edges = list(iter_partly_hidden_columns(keys, starts, stops))
                all_heads = Tile(item, rows, keys, starts, stops, edges)
                step = SCORES // (self.rows * self.group * (keys.stop - keys.start))
                for shared in iter_slices_of_range(self.call.key.shape[1], max(1, step)):
                    heads = slice(shared.start * self.group, shared.stop * self.group)
                    yield all_heads._replace(key_heads=shared, heads=heads)

    def find_visible_key_spans(self, item: int, rows: slice) -> tuple[Tensor, Tensor]:
        """[query]: the first visible key, and the one after the last; all where a bias hides keys."""
        if self.spans is None:
            starts = torch.zeros(rows.stop - rows.start, dtype=torch.int64)
            return starts, starts + self.call.key_count
        number = min(item, len(self.spans.first) - 1)
        return self.spans.first[number, rows], self.spans.stop[number, rows]

    def compute_attention_tile(
        self, tile: Tile, bias: Tensor | None, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write the tile's output; its scores and weights [head, query, key] are in the memory."""
        query = self.query[tile.item, tile.heads, tile.rows]
        key, value = (
            side[tile.item, tile.key_heads, tile.keys] for side in (self.call.key, self.call.value)
        )
        shape = (len(key), self.group * query.shape[1], key.shape[1])
        scores, weights = (
            part[: shape[0] * shape[1] * shape[2]].view(shape) for part in memory.chunk(2)
        )
        torch.bmm(query.reshape(*shape[:2], -1), key.transpose(1, 2), out=scores)
        by_head = (*query.shape[:2], shape[2])
        self.apply_cap_bias_and_mask(scores.view(by_head), tile, bias)
        torch.softmax(scores, dim=-1, out=weights)
        self.remove_sink_share_from_weights(scores.view(by_head), weights.view(by_head), tile.heads)
        output = torch.bmm(weights, value).view(*query.shape[:2], -1)
        self.results.output[tile.item, tile.rows, tile.heads] = output.transpose(0, 1)
        return scores.view(by_head), weights.view(by_head)

    def apply_cap_bias_and_mask(self, scores: Tensor, tile: Tile, bias: Tensor | None) -> None:
        """Cap scores [head, query, key], add what is added to them, and hide keys."""
        if self.formula.cap:
            scores.div_(self.formula.cap).tanh_().mul_(self.formula.cap)
        if bias is not None:
            scores.add_(bias)
        for columns, hidden in tile.edges:
            scores[..., columns].masked_fill_(hidden, torch.finfo(scores.dtype).min)

    def remove_sink_share_from_weights(self, scores: Tensor, weights: Tensor, heads: slice) -> None:
        """Take off each row what its learned sink gets of the softmax."""
        if self.formula.sinks is not None:
            total = scores.amax(dim=-1) - weights.amax(dim=-1).log()
            share = torch.sigmoid(total - self.formula.sinks[heads, None])
            weights.mul_(share[..., None])

    def write_row_statistics(self, scores: Tensor, weights: Tensor, tile: Tile) -> None:
        """Write what was requested of the rows; the scores are overwritten."""
        sizes = (self.call.query_count, self.call.key_count)
        rows = MapStripRows(weights[None], tile.rows.start, tile.keys.start, *sizes)
        best = scores.amax(dim=-1)
        known = {"maximum_scores": best[None]}
        if "entropy" in self.request.rows:
            below = scores.sub_(best[..., None])
            known["entropy"] = entropy_from_logit_differences(rows.weights, below[None])
        if "small_weight_counts" in self.request.rows:
            hidden = weights.shape[-1] - (tile.stops - tile.starts)
            known["small_weight_counts"] = rows.small_weight_counts - hidden
        for name in self.request.rows:
            found = known[name] if name in known else getattr(rows, name)
            self.select_results_of_tile_rows(ROWS.index(name), tile).copy_(found)
        for number, offset in enumerate(self.request.listed_offsets, len(ROWS)):
            key = torch.arange(tile.rows.start, tile.rows.stop)[:, None] - offset
            shown = rows.read_weights_at_offset(offset).masked_fill(
                find_keys_outside_spans(key, tile.starts, tile.stops)[:, 0], nan
            )
            self.select_results_of_tile_rows(number, tile).copy_(shown)
        self.accumulate_column_and_diagonal_sums(rows, tile)

    def select_results_of_tile_rows(self, number: int, tile: Tile) -> Tensor:
        """[1, head, query]: where a statistic of the tile's rows goes."""
        return self.results.rows[number, tile.item : tile.item + 1, tile.heads, tile.rows]

    def accumulate_column_and_diagonal_sums(self, rows: MapStripRows, tile: Tile) -> None:
        """Add up what was requested over columns, diagonals and all of the map."""
        if self.request.columns:
            self.results.columns[tile.item, tile.heads, tile.keys] += rows.weights[0].sum(dim=-2)
        if self.request.offsets:
            found = sum_diagonals(rows.weights[0])
            first = tile.rows.start - tile.keys.stop + self.call.key_count
            self.results.diagonals[tile.item, tile.heads, first : first + found.shape[-1]] += found
        if self.request.column_squares:
            received = rows.column_sums_of_squares[0]
            self.results.column_squares[tile.item, tile.heads, tile.keys] += received
        if self.vectors is not None:
            self.accumulate_gram_matrix_products(rows.weights[0], tile, self.vectors)

    def accumulate_gram_matrix_products(
        self, weights: Tensor, tile: Tile, vectors: MapVectors
    ) -> None:
        """Add A^T A v of weights [head, query, key], of those heads that it is wanted of."""
        first = tile.item * self.query.shape[1] + tile.heads.start
        heads = range(first, first + len(weights))
        places = [place for place, each in enumerate(vectors.maps) if each in heads]
        if len(places) < len(weights):
            weights = weights[[vectors.maps[place] - first for place in places]]
        own = vectors.values if len(vectors.values) == 1 else vectors.values[places]
        across = (weights @ own[:, tile.keys]).transpose(-2, -1)
        self.results.products[places, :, tile.keys] += (across @ weights).double()


def iter_partly_hidden_columns(
    keys: slice, starts: Tensor, stops: Tensor
) -> Iterator[tuple[slice, Tensor]]:
    """What differs between rows that see from `starts` on, up to `stops`, as a tile has it."""
    inner, outer = int(starts.max()), int(stops.min())
    both = [(keys.start, inner), (outer, keys.stop)] if inner < outer else [(keys.start, keys.stop)]
    for first, stop in both:
        if first < stop:
            hidden = find_keys_outside_spans(torch.arange(first, stop)[None], starts, stops)
            yield slice(first - keys.start, stop - keys.start), hidden


def find_keys_outside_spans(keys: Tensor, starts: Tensor, stops: Tensor) -> Tensor:
    """Whether keys [query or 1, key] are hidden from each query."""
    return (keys < starts[:, None]) | (keys >= stops[:, None])


def iter_slices_of_range(total: int, step: int) -> Iterator[slice]:
    for first in range(0, total, step):
        yield slice(first, min(first + step, total))


def copy_tile_to_map_rows(
    written: WrittenRows, tile: Tile, start: int, scores: Tensor, weights: Tensor
) -> None:
    rows = slice(tile.rows.start - start, tile.rows.stop - start)
    keys = slice(tile.keys.start - written.first_key, tile.keys.stop - written.first_key)
    written.weights[tile.item, tile.heads, rows, keys] = weights
    if written.scored:
        written.scores[tile.item, tile.heads, rows, keys] = scores


def slice_bias_for_tile(bias: Tensor, tile: Tile, start: int) -> Tensor:
    """[head or 1, query or 1, key] of the tile, of a bias whose rows begin with row `start` of the map."""
    heads = tile.heads if bias.shape[1] > 1 else slice(None)
    rows = slice(tile.rows.start - start, tile.rows.stop - start)
    rows = rows if bias.shape[2] > 1 else slice(None)
    return bias[min(tile.item, len(bias) - 1), heads, rows, tile.keys]
