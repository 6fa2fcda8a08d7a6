"""A covered call of the attention interface: computed whole, or in strips of rows with their weights."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capture.attention_calls import unseen
from attncli.capture.one_pass.attention_output_and_statistics import (
    MapVectors,
    Results,
    WrittenRows,
    allocate_float32_tensor,
)
from attncli.capture.one_pass.attention_score_formula import (
    Formula,
    NotCovered,
    combine_score_bias_and_mask,
    iter_row_ranges_for_biases,
)
from attncli.capture.one_pass.compiled_library import Arguments, Library, NoLibrary
from attncli.capture.one_pass.fused_attention_calls import (
    FUSED_BY_DEVICE,
    attend_in_fused_calls,
    require_fused_attention_support,
)
from attncli.capture.one_pass.tiled_attention import TiledAttention
from attncli.capture.softmax_attention.attention_interface import EagerCall, MapOperands, Strip
from attncli.capture.softmax_attention.map_statistics import ROWS, MapStatistics, StatisticsRequest
from attncli.capture.softmax_attention.rowwise_masks import find_keys_shown_by_mask
from attncli.capture.softmax_attention.visible_key_spans import (
    CountedKeys,
    KeySpans,
    slice_mask_rows,
)
from attncli.metrics.attention._row_block_of_maps import SMALL, MultiplyByGram
from attncli.metrics.attention._row_statistics import VisibleKeys

LARGEST_SCORE = 1e30
"""Scores that may be larger could leave float32."""

HARMLESS_SCORE = 0.25
"""Of a mask's lowest number: smaller scores leave hidden keys without weight."""


@dataclass
class Workspace:
    """Memory in which threads compute, kept between calls: fresh pages would cost a hundredth of a forward pass."""

    memory: Tensor | None = None

    def reserve_workspace_floats(self, floats: int) -> Tensor:
        if self.memory is None or self.memory.numel() < floats:
            self.memory = allocate_float32_tensor(floats)
        return self.memory[:floats]

    def reserve_floats_per_thread(self, threads: int, floats: int) -> list[int]:
        """The addresses of `floats` numbers for each thread."""
        size = (floats + 15) // 16 * 16
        start = -(-self.reserve_workspace_floats(threads * size + 16).data_ptr() // 64) * 64
        return [start + 4 * size * number for number in range(threads)]


def require_bounded_attention_scores(call: EagerCall, formula: Formula, sizes: Tensor) -> None:
    """Raise NotCovered for numbers that are not finite, or so large that hidden keys may have weight."""
    query, key, value = sizes.flatten(1).amax(dim=1).tolist()
    largest = query * key * call.query.shape[-1] * abs(formula.scale)
    lowest = torch.finfo(torch.float32 if call.mask is None else call.mask.dtype).min
    if not (largest < min(LARGEST_SCORE, -lowest * HARMLESS_SCORE) and value < LARGEST_SCORE):
        raise NotCovered("numbers that are not finite, or too large")


def compute_attention_in_one_pass(
    call: EagerCall,
    formula: Formula,
    request: StatisticsRequest,
    library: Library | NoLibrary,
    workspace: Workspace,
    spans: KeySpans | None,
) -> Strip:
    """Compute the output and the statistics of a whole map by what there is for its device."""
    if call.query.device.type in FUSED_BY_DEVICE:
        causal = require_fused_attention_support(call, formula, request, spans)
        assert spans is not None
        results, seen = (
            attend_in_fused_calls(call, formula, request, causal),
            spans.count_visible_keys(),
        )
        gram = None
    else:
        request = request_all_row_statistics(request, library)
        reader = ScoreReader(call, formula, library, workspace, spans)
        results, seen, gram = reader.compute_statistics_and_gram_multiplier(request)
    require_bounded_attention_scores(call, formula, results.sizes)
    if request.spans and seen.spans is None:
        raise NotCovered("keys of a query that are no span")
    sums = results.collect_column_and_diagonal_sums()._replace(multiply_by_gram=gram)
    statistics = MapStatistics(request, results.rows, sums, seen)
    hidden = torch.full((), torch.nan).expand(*call.query.shape[:3], call.key_count)
    where = (0, 0, call.query_count, call.key_count)
    sides = MapOperands(call.query, call.key, call.value)
    return Strip(
        hidden, *where, outputs=results.output, scores=hidden, sides=sides, statistics=statistics
    )


class MapInStrips:
    """One attention whose rows are computed in strips that have their weights."""

    def __init__(
        self,
        call: EagerCall,
        formula: Formula,
        request: StatisticsRequest,
        library: Library | NoLibrary,
        workspaces: "tuple[Workspace, Workspace]",
        spans: KeySpans | None,
    ) -> None:
        """`workspaces`: what is computed in, and what a strip's weights are written to until the next one."""
        if call.query.device.type in FUSED_BY_DEVICE:
            raise NotCovered("fused calls give no weights")
        self.call, self.formula, self.spans = call, formula, spans
        self.request = request_all_row_statistics(request, library)
        self.results = Results.allocate_results_for_call(call, self.request)
        self.results.write_largest_qkv_entries(call)
        require_bounded_attention_scores(call, formula, self.results.sizes)
        reader = ScoreReader(call, formula, library, workspaces[0], spans)
        self.attend = reader.choose_attention_implementation(self.request, self.results)
        self.map_memory = workspaces[1]

    def compute_map_rows(self, start: int, rows: int) -> Strip:
        call, stop = self.call, min(start + rows, self.call.query_count)
        with unseen():
            visible, first, last = self.find_keys_visible_to_rows(start, stop)
            written = self.reserve_memory_for_map_rows(stop - start, first, last)
            bias = combine_score_bias_and_mask(call, self.formula, self.spans, start, stop)
            self.attend(start, stop, bias, written)
            found = self.results.rows[..., start:stop]
            statistics = MapStatistics(
                self.request, found, self.results.collect_column_and_diagonal_sums()
            )
            return Strip(
                written.weights,
                *(start, first, call.query_count, call.key_count),
                visible,
                self.results.output[:, start:stop],
                written.scores,
                sides=MapOperands(call.query[:, :, start:stop], call.key, call.value),
                statistics=statistics,
            )

    def find_keys_visible_to_rows(self, start: int, stop: int) -> tuple[Tensor | None, int, int]:
        """What the mask leaves of the keys from one on, up to another; this one and the other."""
        call, rows = self.call, stop - start
        if call.mask is None:
            return None, 0, call.key_count
        if self.spans is None:
            found = find_keys_shown_by_mask(slice_mask_rows(call.mask, start, stop), call.key_count)
            return found if found is None else found.expand(-1, -1, rows, -1), 0, call.key_count
        begin, end = (side[:, None, start:stop] for side in (self.spans.first, self.spans.stop))
        first, last = int(begin.min()), int(end.max())
        key = torch.arange(first, last)
        return (key >= begin[..., None]) & (key < end[..., None]), first, last

    def reserve_memory_for_map_rows(self, rows: int, first: int, last: int) -> WrittenRows:
        shape = (*self.call.query.shape[:2], rows, last - first)
        cells = math.prod(shape)
        scored = self.request.scores
        memory = self.map_memory.reserve_workspace_floats(cells * (1 + scored))
        unknown = torch.full((), math.nan)
        scores = memory[cells:].view(shape) if scored else unknown.expand(shape)
        return WrittenRows(memory[:cells].view(shape), scores, scored, first)


def request_all_row_statistics(
    request: StatisticsRequest, library: Library | NoLibrary
) -> StatisticsRequest:
    """The same with all statistics of rows that the library finds anyway; it counts small weights with the columns."""
    if isinstance(library, NoLibrary):
        return request
    apart = {"centred_sums_of_squares"} | ({"small_weight_counts"} if request.weights else set())
    found = tuple(name for name in ROWS if name in request.rows or name not in apart)
    return request._replace(rows=found)


PRODUCTS_ALONE = StatisticsRequest(False, False, (), rows=())


class ScoreReader(NamedTuple):
    """Reads the scores of one attention by the library or in tiles, again for each product of its maps."""

    call: EagerCall
    formula: Formula
    library: Library | NoLibrary
    workspace: Workspace
    spans: KeySpans | None

    def compute_statistics_and_gram_multiplier(
        self, request: StatisticsRequest
    ) -> tuple[Results, VisibleKeys, MultiplyByGram | None]:
        """All that was requested, and what reads the scores once more for each product after the first."""
        if request.first_vectors is None:
            return *self.compute_statistics_of_all_rows(request), None
        first = request.first_vectors(self.call.key_count).float()
        maps = range(self.call.query.shape[0] * self.call.query.shape[1])
        results, seen = self.compute_statistics_of_all_rows(
            request, MapVectors(first[None].contiguous(), maps)
        )

        def multiply_by_gram_matrix(vectors: Tensor, maps: Sequence[int]) -> Tensor:
            """A^T A v; those of the first vectors are known."""
            single = vectors.float()
            if single.shape[1:] == first.shape and torch.equal(single, first.expand_as(single)):
                return results.products[[*maps]].transpose(1, 2)
            block = MapVectors(single.contiguous(), maps)
            narrow = self._replace(call=self.call._replace(value=self.call.value[..., :1]))
            again, _ = narrow.compute_statistics_of_all_rows(PRODUCTS_ALONE, block)
            return again.products.transpose(1, 2)

        return results, seen, multiply_by_gram_matrix

    def compute_statistics_of_all_rows(
        self, request: StatisticsRequest, vectors: MapVectors | None = None
    ) -> tuple[Results, VisibleKeys]:
        """Compute all rows; masks and biases are added a strip of rows at a time."""
        call, spans = self.call, self.spans
        results = Results.allocate_results_for_call(call, request, vectors)
        attend = self.choose_attention_implementation(request, results, vectors)
        counted = CountedKeys(call.query_count, call.key_count)
        for start, stop in iter_row_ranges_for_biases(call, self.formula, spans):
            bias = combine_score_bias_and_mask(call, self.formula, spans, start, stop)
            attend(start, stop, bias, None)
            if spans is None:
                assert call.mask is not None
                visible = counted.count_keys_of_mask_rows(
                    slice_mask_rows(call.mask, start, stop), start, stop
                )
                results.remove_hidden_keys_from_statistics(visible, request, start, stop)
        return (
            results,
            counted.count_visible_keys() if spans is None else spans.count_visible_keys(),
        )

    def choose_attention_implementation(
        self, request: StatisticsRequest, results: Results, vectors: MapVectors | None = None
    ) -> "AttendRows":
        call, formula, spans = self.call, self.formula, self.spans
        if isinstance(self.library, NoLibrary):
            tiled = TiledAttention(call, formula, request, spans, results, vectors)
            return prepare_tiled_attention(tiled, self.workspace)
        arguments = fill_compiled_library_arguments(call, formula, request, results, spans)
        maps = add_vectors_to_library_arguments(arguments, vectors)
        return prepare_compiled_attention(self.library, arguments, maps, self.workspace)


AttendRows = Callable[[int, int, Tensor | None, WrittenRows | None], None]
"""Computes rows from one to another, with a bias [batch or 1, head or 1, query or 1, key] of these rows, and keeps their
weights if there is memory for them."""


def prepare_tiled_attention(tiled: TiledAttention, workspace: Workspace) -> AttendRows:
    memory = workspace.reserve_workspace_floats(tiled.floats_per_tile)
    return partial(tiled.compute_attention_rows, memory)


def prepare_compiled_attention(
    library: Library, arguments: Arguments, maps: int, workspace: Workspace
) -> AttendRows:
    threads = min(torch.get_num_threads(), maps)
    scratch = workspace.reserve_floats_per_thread(threads, library.count_scratch_floats(arguments))

    def compute_attention_rows(
        start: int, stop: int, bias: Tensor | None, written: WrittenRows | None
    ) -> None:
        arguments.start, arguments.stop = start, stop
        if bias is not None:
            arguments.bias = bias.data_ptr()
            arguments.bias_batch, arguments.bias_head, arguments.bias_row = (
                compute_broadcast_strides(bias)
            )
        if written is not None:
            arguments.weights = written.weights.data_ptr()
            arguments.scores = written.scores.data_ptr() if written.scored else None
            arguments.written_from, arguments.written_keys = (
                written.first_key,
                written.weights.shape[-1],
            )
        compute_attention_in_threads(library, arguments, maps, scratch)

    return compute_attention_rows


def fill_compiled_library_arguments(
    call: EagerCall,
    formula: Formula,
    request: StatisticsRequest,
    results: Results,
    spans: KeySpans | None,
) -> Arguments:
    """The arguments without rows and bias; they keep alive what they point to."""
    batch, heads, queries, width = call.query.shape
    sides = {
        "query": make_rows_contiguous(call.query),
        "key": make_rows_contiguous(call.key),
        "value": make_rows_contiguous(call.value),
    }
    pairs = None if spans is None else spans.build_span_bounds_tensor()
    tensors = {
        **sides,
        "spans": pairs,
        "sinks": formula.sinks,
        "listed": torch.tensor([*request.listed_offsets, 0], device="cpu"),
        "output": results.output,
        "row_statistics": results.rows,
        "columns": results.columns,
        "offsets": results.diagonals,
        "column_squares": results.column_squares,
        "products": results.products,
        "sizes": results.sizes,
    }
    arguments = Arguments(
        scale=formula.scale, cap=formula.cap, small=SMALL, what=request.compiled_library_flags
    )
    for name, tensor in tensors.items():
        setattr(arguments, name, None if tensor is None else tensor.data_ptr())
    for name, side in sides.items():
        for axis, stride in zip(("batch", "head", "row"), side.stride(), strict=False):
            setattr(arguments, f"{name}_{axis}", stride)
    arguments.batch, arguments.heads, arguments.queries, arguments.width = (
        batch,
        heads,
        queries,
        width,
    )
    arguments.keys, arguments.value_width = call.key_count, call.value.shape[-1]
    arguments.heads_per_key = heads // call.key.shape[1]
    arguments.listed_count = len(request.listed_offsets)
    arguments.span_batch = 0 if pairs is None or len(pairs) == 1 else 2 * queries
    arguments.alive = tensors
    return arguments


def add_vectors_to_library_arguments(arguments: Arguments, vectors: MapVectors | None) -> int:
    """Add what maps are multiplied with; the number of maps that are computed."""
    if vectors is None:
        return int(arguments.batch * arguments.heads)
    maps = torch.tensor([*vectors.maps], dtype=torch.int64, device="cpu")
    arguments.vectors, arguments.maps = vectors.values.data_ptr(), maps.data_ptr()
    arguments.vector_count = vectors.values.shape[-1]
    arguments.vector_map = 0 if len(vectors.values) == 1 else vectors.values[0].numel()
    arguments.alive.update(vectors=vectors.values, maps=maps)
    return len(maps)


def make_rows_contiguous(side: Tensor) -> Tensor:
    return side if side.stride(-1) == 1 else side.contiguous()


def compute_broadcast_strides(bias: Tensor) -> tuple[int, ...]:
    """Strides of the first three axes, 0 where one number is for all."""
    sides = zip(bias.shape[:3], bias.stride(), strict=False)
    return tuple(0 if size == 1 else stride for size, stride in sides)


def compute_attention_in_threads(
    library: Library, arguments: Arguments, maps: int, scratch: Sequence[int]
) -> None:
    """Divide the maps over as many threads as there is memory for, of which this one is the first."""
    threads = len(scratch)
    ends = [maps * number // threads for number in range(threads + 1)]
    parts = list(zip(ends, ends[1:], scratch, strict=False))
    others = [
        reuse_worker_threads(threads - 1, os.getpid()).submit(
            library.compute_attention_of_maps, arguments, *part
        )
        for part in parts[1:]
    ]
    try:
        library.compute_attention_of_maps(arguments, *parts[0])
    finally:
        wait(others)  # they write to memory that is freed when this ends
    for done in others:
        done.result()


@lru_cache(maxsize=1)
def reuse_worker_threads(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that are kept between calls. A forked process has those of its parent no more, so it makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"attention in {process}")
