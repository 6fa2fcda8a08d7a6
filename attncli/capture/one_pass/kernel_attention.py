"""One call of the attention interface by the library or in tiles, judged by the model's own eager function.

The formula is the one of nearly all models: softmax(scale · q k^T, capped, plus masks and biases) v, with or without a
learned sink. Whether a layer has it is not read from its code: its first and its last rows are computed by the model's
own function too, in every forward pass, and where they differ that function computes all.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import read_tensor_version, unseen
from attncli.capture.one_pass.compiled_library import (
    OWN_FUNCTION,
    Arguments,
    Library,
    NoLibrary,
    find_library,
)
from attncli.capture.one_pass.formula import (
    Formula,
    NotCovered,
    combine_bias_and_mask,
    is_bias,
    read_formula,
    strips_of_biases,
)
from attncli.capture.one_pass.fused_calls import (
    FUSED_BY_DEVICE,
    attend_in_fused_calls,
    require_served,
)
from attncli.capture.one_pass.results import Results, empty_floats
from attncli.capture.one_pass.tiles import TiledAttention
from attncli.capture.strips.attention_interface import (
    Attention,
    EagerCall,
    MapOperands,
    Strip,
    compute_strip,
)
from attncli.capture.strips.map_statistics import ROWS, MapStatistics, StatisticsRequest
from attncli.capture.strips.masks import RowwiseMask
from attncli.capture.strips.visible_keys import (
    CountedKeys,
    KeySpans,
    find_visible_spans,
    mask_rows,
)
from attncli.metrics.attention._map_strip_rows import SMALL, MapStripRows
from attncli.metrics.attention._row_statistics import VisibleKeys
from attncli.tolerances import ONE_PASS_ROW

FEWEST_CELLS = 2**16
"""Batches whose maps have fewer cost next to nothing, and are computed by the model's own function."""

MASKS = 4
"""Masks that are kept with what they show: models have few kinds of them, though some make a new one for each layer."""

JUDGED_ROWS = 8
"""Rows, at either end of a map, that the model's own function computes too."""

ONE_PASS = "one pass"
"""How attentions are called that were computed by the library or in tiles."""

FUSED_CALLS = "fused calls with their log-sum-exp"
"""How those are called that a fused function of their device computed."""


LARGEST_SCORE = 1e30
"""Scores that may be larger could leave float32."""

HARMLESS_SCORE = 0.25
"""Of a mask's lowest number: smaller scores leave hidden keys without weight."""


class Workspace:
    """Memory in which threads compute, kept between calls: fresh pages would cost a hundredth of a forward pass."""

    def __init__(self) -> None:
        self.memory = empty_floats(0)

    def of_floats(self, floats: int) -> Tensor:
        if self.memory.numel() < floats:
            self.memory = empty_floats(floats)
        return self.memory[:floats]

    def of_threads(self, threads: int, floats: int) -> list[int]:
        """The addresses of `floats` numbers for each thread."""
        size = (floats + 15) // 16 * 16
        start = -(-self.of_floats(threads * size + 16).data_ptr() // 64) * 64
        return [start + 4 * size * number for number in range(threads)]


class OnePass:
    """Attends by the library or in tiles what these cover, and notes what they do not, and why."""

    def __init__(self, request: StatisticsRequest | None) -> None:
        """`request`: None where an observer reads weights one by one."""
        self.request = request
        self.workspace = Workspace()
        self.uncovered: dict[nn.Module, str] = {}
        """Attentions that were tried, and why the model's own function computes them."""
        self.restart()

    @property
    def library(self) -> Library | NoLibrary:
        """Not kept here: a model that is watched may be copied and pickled, with its hooks, and a library may not."""
        return find_library()

    def restart(self) -> None:
        """Start a new forward pass, with masks of its own."""
        self.spans: dict[tuple[int, int, int], tuple[Tensor | None, int, KeySpans | None]] = {}
        self.paths: Counter[str] = Counter()
        """How many attentions were computed in one pass, and for each reason how many by the model's own functions."""

    def attend(self, eager: Attention, call: EagerCall) -> Strip | None:
        """The output and the statistics of one attention, as a strip of all rows without weights; None if not covered."""
        try:
            found = self.compute_strip(eager, call)
        except NotCovered as why:
            self.paths[str(why)] += 1
            return None
        on_device = call.query.device.type in FUSED_BY_DEVICE
        self.paths[FUSED_CALLS if on_device else ONE_PASS] += 1
        return found

    def compute_strip(self, eager: Attention, call: EagerCall) -> Strip:
        if isinstance(self.library, NoLibrary) and self.library.own:
            raise NotCovered(self.library.why)
        if self.request is None:
            raise NotCovered("weights are read one by one")
        if len(call.query) * call.queries * call.keys < FEWEST_CELLS:
            raise NotCovered("short inputs")
        if call.module in self.uncovered:
            raise NotCovered(self.uncovered[call.module])
        try:
            with unseen():
                formula, spans = read_formula(call), self.find_spans(call)
                require_covered(call, formula, spans)
                found = compute_in_one_pass(
                    call, formula, self.request, self.library, self.workspace, spans
                )
            own = own_strips(eager, call)
            with unseen():
                return judge(call, found, own)
        except NotCovered as why:
            self.uncovered[call.module] = str(why)
            raise

    def describe_paths(self) -> Counter[str]:
        """The same as `paths`, in words for a report."""
        return Counter({self.say(why): count for why, count in self.paths.items()})

    def say(self, why: str) -> str:
        if why == FUSED_CALLS:
            return why
        return self.library.describe() if why == ONE_PASS else f"{OWN_FUNCTION} ({why})"

    def find_spans(self, call: EagerCall) -> KeySpans | None:
        """The keys that the call's mask shows, read once for all layers; None where these are no spans."""
        mask, version = call.mask, mask_version(call.mask)
        place = (id(mask), call.queries, call.keys)
        known = self.spans.get(place)
        if known is None or known[0] is not mask or known[1] != version:
            known = mask, version, find_visible_spans(mask, call.queries, call.keys)
            if len(self.spans) == MASKS:
                self.spans.clear()
            self.spans[place] = known
        return known[2]


def mask_version(mask: Tensor | None) -> int:
    """A number that changes when the mask is written to."""
    if mask is None:
        return 0
    if isinstance(mask, RowwiseMask):
        return -1 if mask.made is None else read_tensor_version(mask.made)
    return read_tensor_version(mask)


def require_covered(call: EagerCall, formula: Formula, spans: KeySpans | None) -> None:
    """Raise NotCovered for devices, dtypes and shapes that the library is not for."""
    sides = (call.query, call.key, call.value)
    if any(side.dtype != torch.float32 for side in sides):
        raise NotCovered("not float32")
    if call.query.device.type not in ("cpu", *FUSED_BY_DEVICE):
        raise NotCovered(f"on {call.query.device.type}")
    if any(side.dim() != 4 for side in sides) or call.query.shape[1] % call.key.shape[1]:
        raise NotCovered("heads that do not share keys evenly")
    if call.key.shape[:3] != call.value.shape[:3] or len(call.query) != len(call.key):
        raise NotCovered("keys and values of different shapes")
    if torch.is_grad_enabled() and any(side.requires_grad for side in sides):
        raise NotCovered("gradients wanted")
    if formula.bias is not None and not is_bias(formula.bias, call):
        raise NotCovered("a position bias of another shape")
    if spans is not None and len(spans.first) not in (1, len(call.query)):
        raise NotCovered("a mask of another shape")
    if spans is None and not (call.mask is not None and is_bias(call.mask, call)):
        raise NotCovered("a mask of another shape")


def require_small(call: EagerCall, formula: Formula, sizes: Tensor) -> None:
    """Raise NotCovered for numbers that are not finite, or so large that hidden keys may have weight."""
    query, key, value = sizes.flatten(1).amax(dim=1).tolist()
    largest = query * key * call.query.shape[-1] * abs(formula.scale)
    lowest = torch.finfo(torch.float32 if call.mask is None else call.mask.dtype).min
    if not (largest < min(LARGEST_SCORE, -lowest * HARMLESS_SCORE) and value < LARGEST_SCORE):
        raise NotCovered("numbers that are not finite, or too large")


def compute_in_one_pass(
    call: EagerCall,
    formula: Formula,
    request: StatisticsRequest,
    library: Library | NoLibrary,
    workspace: Workspace,
    spans: KeySpans | None,
) -> Strip:
    """Compute the output and the statistics of a whole map by what there is for its device."""
    if call.query.device.type in FUSED_BY_DEVICE:
        causal = require_served(call, formula, request, spans)
        assert spans is not None
        results, seen = attend_in_fused_calls(call, formula, request, causal), spans.visible()
    else:
        if isinstance(library, Library):
            request = request._replace(rows=ROWS)  # it finds them all
        results = Results.from_call(call, request)
        if isinstance(library, NoLibrary):
            attend = in_tiles(TiledAttention(call, formula, request, spans, results), workspace)
        else:
            arguments = fill_arguments(call, formula, request, results, spans)
            attend = by_library(library, arguments, workspace)
        seen = attend_all_rows(call, formula, request, results, attend, spans)
    require_small(call, formula, results.sizes)
    if request.spans and seen.spans is None:
        raise NotCovered("keys of a query that are no span")
    statistics = MapStatistics(request, results.rows, results.columns, results.diagonals, seen)
    hidden = torch.full((), torch.nan).expand(*call.query.shape[:3], call.keys)
    where = (0, 0, call.queries, call.keys)
    return Strip(hidden, *where, outputs=results.output, scores=hidden, statistics=statistics)


def attend_all_rows(
    call: EagerCall,
    formula: Formula,
    request: StatisticsRequest,
    results: Results,
    attend: "AttendRows",
    spans: KeySpans | None,
) -> VisibleKeys:
    """Compute all rows; masks and biases are added a strip of rows at a time."""
    counted = CountedKeys(call.queries, call.keys)
    for start, stop in strips_of_biases(call, formula, spans):
        attend(start, stop, combine_bias_and_mask(call, formula, spans, start, stop))
        if spans is None:
            assert call.mask is not None
            visible = counted.add(mask_rows(call.mask, start, stop), start, stop)
            results.take_off_hidden(visible, request, start, stop)
    return counted.visible() if spans is None else spans.visible()


AttendRows = Callable[[int, int, Tensor | None], None]
"""Computes rows from one to another, with a bias [batch or 1, head or 1, query or 1, key] of these rows."""


def in_tiles(tiled: TiledAttention, workspace: Workspace) -> AttendRows:
    memory = workspace.of_floats(tiled.floats)
    return lambda start, stop, bias: tiled.attend(start, stop, bias, memory)


def by_library(library: Library, arguments: Arguments, workspace: Workspace) -> AttendRows:
    heads = arguments.batch * arguments.heads
    threads = min(torch.get_num_threads(), heads)
    scratch = workspace.of_threads(threads, library.scratch_floats(arguments))

    def attend_rows(start: int, stop: int, bias: Tensor | None) -> None:
        arguments.start, arguments.stop = start, stop
        if bias is not None:
            arguments.bias = bias.data_ptr()
            arguments.bias_batch, arguments.bias_head, arguments.bias_row = broadcast_strides(bias)
        run_threads(library, arguments, heads, scratch)

    return attend_rows


def fill_arguments(
    call: EagerCall,
    formula: Formula,
    request: StatisticsRequest,
    results: Results,
    spans: KeySpans | None,
) -> Arguments:
    """The arguments without rows and bias; they keep alive what they point to."""
    batch, heads, queries, width = call.query.shape
    sides = {
        "query": with_dense_rows(call.query),
        "key": with_dense_rows(call.key),
        "value": with_dense_rows(call.value),
    }
    pairs = None if spans is None else spans.as_pairs()
    tensors = {
        **sides,
        "spans": pairs,
        "sinks": formula.sinks,
        "listed": torch.tensor([*request.listed, 0], device="cpu"),
        "output": results.output,
        "row_statistics": results.rows,
        "columns": results.columns,
        "offsets": results.diagonals,
        "sizes": results.sizes,
    }
    arguments = Arguments(scale=formula.scale, cap=formula.cap, small=SMALL, what=request.bits)
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
    arguments.keys, arguments.value_width = call.keys, call.value.shape[-1]
    arguments.heads_per_key = heads // call.key.shape[1]
    arguments.listed_count = len(request.listed)
    arguments.span_batch = 0 if pairs is None or len(pairs) == 1 else 2 * queries
    arguments.alive = tensors
    return arguments


def with_dense_rows(side: Tensor) -> Tensor:
    return side if side.stride(-1) == 1 else side.contiguous()


def broadcast_strides(bias: Tensor) -> tuple[int, ...]:
    """Strides of the first three axes, 0 where one number is for all."""
    sides = zip(bias.shape[:3], bias.stride(), strict=False)
    return tuple(0 if size == 1 else stride for size, stride in sides)


def run_threads(library: Library, arguments: Arguments, heads: int, scratch: Sequence[int]) -> None:
    """Divide the heads over as many threads as there is memory for, of which this one is the first."""
    threads = len(scratch)
    ends = [heads * number // threads for number in range(threads + 1)]
    parts = list(zip(ends, ends[1:], scratch, strict=False))
    others = [
        worker_threads(threads - 1, os.getpid()).submit(library.attend, arguments, *part)
        for part in parts[1:]
    ]
    try:
        library.attend(arguments, *parts[0])
    finally:
        wait(others)  # they write to memory that is freed when this ends
    for done in others:
        done.result()


@lru_cache(maxsize=1)
def worker_threads(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that are kept between calls. A forked process has those of its parent no more, so it makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"attention in {process}")


def own_strips(eager: Attention, call: EagerCall) -> list[tuple[Tensor, Strip]]:
    """The outputs and the strips of the first and the last rows by the model's own function."""
    last = max(0, call.queries - JUDGED_ROWS)
    return [compute_strip(eager, call, start, JUDGED_ROWS) for start in dict.fromkeys((0, last))]


def judge(call: EagerCall, found: Strip, own: Sequence[tuple[Tensor, Strip]]) -> Strip:
    """Compare these rows with those of the model's own function, or raise NotCovered."""
    statistics = found.statistics
    assert statistics is not None
    assert found.outputs is not None
    computed = [statistics.of_rows(name) for name in statistics.request.rows if name != "small"]
    if not all(bool(each.isfinite().all()) for each in computed):
        raise NotCovered("numbers that are not finite, or too large")
    for output, strip in own:
        part = slice(strip.first_query, strip.first_query + output.shape[1])
        require_same(found.outputs[:, part], output, float(output.abs().max()))
        for name, theirs in summarise_rows(strip).items():
            if name in statistics.request.rows:
                size = max(1.0, float(theirs.abs().max()))
                require_same(statistics.of_rows(name)[..., part], theirs.cpu(), size)
    scored = all(strip.scores is not None for _, strip in own)
    return found._replace(
        scores=found.scores if scored else None,
        sides=own[0][1].sides and MapOperands(call.query, call.key, call.value),
    )


def summarise_rows(strip: Strip) -> dict[str, Tensor]:
    """What the rows of the model's own function give."""
    rows = MapStripRows(strip.weights, *strip[1:5], strip.visible, None, strip.scores)
    found = {"sums": rows.sums, "entropy": rows.entropy, "largest": rows.largest}
    more = {} if strip.scores is None else {"best": rows.best}
    return {**found, "squares": rows.squares, "distances": rows.distances, **more}


def require_same(ours: Tensor, theirs: Tensor, size: float) -> None:
    if (
        ours.shape != theirs.shape
        or not float((ours - theirs).abs().max()) <= ONE_PASS_ROW.of() * size
    ):
        raise NotCovered("another formula")
