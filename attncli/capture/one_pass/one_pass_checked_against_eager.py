"""One call of the attention interface by the library or in tiles, judged by the model's own eager function.

The formula is the one of nearly all models: softmax(scale · q k^T, capped, plus masks and biases) v, with or without a
learned sink. Whether a layer has it is not read from its code: its first and its last rows are computed by the model's
own function too, in every forward pass, and where they differ that function computes all.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import unseen
from attncli.capture.one_pass.attention_in_one_pass import (
    MapInStrips,
    Workspace,
    compute_attention_in_one_pass,
)
from attncli.capture.one_pass.attention_score_formula import (
    Formula,
    NotCovered,
    is_attention_score_bias,
    read_attention_score_formula,
)
from attncli.capture.one_pass.compiled_library import (
    OWN,
    OWN_FUNCTION,
    SWITCH,
    Library,
    NoLibrary,
    find_compiled_library,
)
from attncli.capture.one_pass.fused_attention_calls import FUSED_BY_DEVICE
from attncli.capture.softmax_attention.attention_interface import (
    Attention,
    EagerCall,
    Strip,
    compute_output_and_map_rows,
    emit_map_rows_while_requested,
)
from attncli.capture.softmax_attention.map_statistics import (
    StatisticsRequest,
    request_statistics_for_metrics,
)
from attncli.capture.softmax_attention.rowwise_masks import PerMask
from attncli.capture.softmax_attention.visible_key_spans import KeySpans, find_visible_spans
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.tolerances import ONE_PASS_ROW

FEWEST_CELLS = 2**16
"""Batches whose maps have fewer cost next to nothing, and are computed by the model's own function."""

JUDGED_ROWS = 8
"""Rows, at either end of a map, that the model's own function computes too."""

ONE_PASS = "one pass"
"""How attentions are called that were computed by the library or in tiles."""

FUSED_CALLS = "fused calls with their log-sum-exp"
"""How those are called that a fused function of their device computed."""


class OnePass:
    """Attends by the library or in tiles what these cover, and notes what they do not, and why."""

    def __init__(self, metrics: tuple[str, ...], period: int | None, weights: bool = False) -> None:
        """The statistics that these metrics need: the arguments are those of `request_statistics_for_metrics`."""
        self.statistics_arguments = metrics, period, weights
        self.workspace, self.map_memory = Workspace(), Workspace()
        self.uncovered: dict[nn.Module, str] = {}
        """Attentions that were tried, and why the model's own function computes them."""
        self.start_forward_pass()

    @property
    def statistics_request(self) -> StatisticsRequest:
        return request_statistics_for_metrics(*self.statistics_arguments)

    @property
    def compiled_library(self) -> Library | NoLibrary:
        """Not kept here: a model that is watched may be copied and pickled, with its hooks, and a library may not."""
        return find_compiled_library()

    def start_forward_pass(self) -> None:
        """Start a new forward pass, with masks of its own."""
        self.masks = PerMask()
        self.paths: Counter[str] = Counter()
        """How many attentions were computed in one pass, and for each reason how many by the model's own functions."""

    def attend_in_one_pass_if_possible(
        self, eager: Attention, call: EagerCall, rows: int, observe: Callable[[Strip], bool]
    ) -> Tensor | None:
        """Compute the output of one attention, and emit its map; None if not covered.

        The map comes as one strip of all rows without weights, or in strips of so many rows where weights are wanted.
        """
        try:
            output, strips = self.compute_output_and_map_rows(eager, call, rows)
        except NotCovered as why:
            self.paths[str(why)] += 1
            return None
        on_device = call.query.device.type in FUSED_BY_DEVICE
        self.paths[FUSED_CALLS if on_device else ONE_PASS] += 1
        emit_map_rows_while_requested(strips, observe)
        return output

    def compute_output_and_map_rows(
        self, eager: Attention, call: EagerCall, rows: int
    ) -> tuple[Tensor, Callable[[int], Iterable[Strip]]]:
        """The output, which is complete after the first round of the strips, and these; judged."""
        if os.environ.get(SWITCH) == OWN:  # short inputs do not need the library, nor load it
            raise NotCovered(f"{SWITCH}={OWN}")
        if len(call.query) * call.query_count * call.key_count < FEWEST_CELLS:
            raise NotCovered("short inputs")
        if call.module in self.uncovered:
            raise NotCovered(self.uncovered[call.module])
        try:
            with unseen():
                formula, spans = (
                    read_attention_score_formula(call),
                    self.find_visible_key_spans(call),
                )
                require_one_pass_support(call, formula, spans)
            if self.statistics_request.weights:
                return self.compute_output_and_weight_rows(eager, call, formula, spans, rows)
            with unseen():
                found = compute_attention_in_one_pass(
                    call,
                    formula,
                    self.statistics_request,
                    self.compiled_library,
                    self.workspace,
                    spans,
                )
            own = compute_first_and_last_rows_eagerly(eager, call)
            with unseen():
                require_finite_row_statistics(found)
                for output, strip in own:
                    require_rows_equal_to_eager(found, output, strip)
            assert found.outputs is not None
            return found.outputs, lambda _: [drop_scores_if_eager_has_none(found, own)]
        except NotCovered as why:
            self.uncovered[call.module] = str(why)
            raise

    def compute_output_and_weight_rows(
        self, eager: Attention, call: EagerCall, formula: Formula, spans: KeySpans | None, rows: int
    ) -> tuple[Tensor, Callable[[int], Iterable[Strip]]]:
        """The same in strips that have weights: the first rows and the last are judged before."""
        more = (
            formula,
            self.statistics_request,
            self.compiled_library,
            (self.workspace, self.map_memory),
            spans,
        )
        with unseen():
            whole = MapInStrips(call, *more)
        own = compute_first_and_last_rows_eagerly(eager, call)
        with unseen():
            for output, strip in own:
                require_rows_equal_to_eager(
                    whole.compute_map_rows(strip.first_query, output.shape[1]), output, strip
                )

        def iter_map_rows(number: int) -> Iterator[Strip]:
            found = MapInStrips(call.copy_with_few_value_features(), *more) if number else whole
            for start in range(0, call.query_count, rows):
                yield drop_scores_if_eager_has_none(found.compute_map_rows(start, rows), own)

        return whole.results.output, iter_map_rows

    def describe_implementations_used(self) -> Counter[str]:
        """The same as `paths`, in words for a report."""
        return Counter(
            {self.describe_implementation_used(why): count for why, count in self.paths.items()}
        )

    def describe_implementation_used(self, why: str) -> str:
        if why == FUSED_CALLS:
            return why
        return (
            self.compiled_library.describe_attention_implementation()
            if why == ONE_PASS
            else f"{OWN_FUNCTION} ({why})"
        )

    def find_visible_key_spans(self, call: EagerCall) -> KeySpans | None:
        """The keys that the call's mask shows, read once for all layers; None where these are no spans."""
        sizes = call.query_count, call.key_count
        return self.masks.get_cached_or_compute_for_mask(
            call.mask, lambda: find_visible_spans(call.mask, *sizes), *sizes
        )


def require_one_pass_support(call: EagerCall, formula: Formula, spans: KeySpans | None) -> None:
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
    if formula.bias is not None and not is_attention_score_bias(formula.bias, call):
        raise NotCovered("a position bias of another shape")
    if spans is not None and len(spans.first) not in (1, len(call.query)):
        raise NotCovered("a mask of another shape")
    if spans is None and not (call.mask is not None and is_attention_score_bias(call.mask, call)):
        raise NotCovered("a mask of another shape")


def compute_first_and_last_rows_eagerly(
    eager: Attention, call: EagerCall
) -> list[tuple[Tensor, Strip]]:
    """The outputs and the strips of the first and the last rows by the model's own function."""
    last = max(0, call.query_count - JUDGED_ROWS)
    return [
        compute_output_and_map_rows(eager, call, start, JUDGED_ROWS)
        for start in dict.fromkeys((0, last))
    ]


def require_finite_row_statistics(found: Strip) -> None:
    """Raise NotCovered where a statistic of some row is no number."""
    statistics = found.statistics
    assert statistics is not None
    computed = [
        statistics.find_row_statistic(name)
        for name in statistics.request.rows
        if name != "small_weight_counts"
    ]
    if not all(bool(each.isfinite().all()) for each in computed):
        raise NotCovered("numbers that are not finite, or too large")


def require_rows_equal_to_eager(found: Strip, output: Tensor, theirs: Strip) -> None:
    """Compare rows with those of the model's own function, or raise NotCovered."""
    statistics, first = found.statistics, theirs.first_query - found.first_query
    assert statistics is not None
    assert found.outputs is not None
    part = slice(first, first + output.shape[1])
    require_close_to_eager(found.outputs[:, part], output, float(output.abs().max()))
    for name, own in summarize_eager_rows(theirs).items():
        if name in statistics.request.rows:
            size = max(1.0, float(own.abs().max()))
            require_close_to_eager(statistics.find_row_statistic(name)[..., part], own.cpu(), size)
    if found.has_weights:
        require_close_to_eager(pad_weights_to_all_keys(found), pad_weights_to_all_keys(theirs), 1.0)


def pad_weights_to_all_keys(strip: Strip) -> Tensor:
    after = strip.keys - strip.first_key - strip.weights.shape[-1]
    return torch.nn.functional.pad(strip.weights, (strip.first_key, after))


def drop_scores_if_eager_has_none(found: Strip, own: Sequence[tuple[Tensor, Strip]]) -> Strip:
    """The strip without scores if those of the model's own function were not seen."""
    scored = all(strip.scores is not None for _, strip in own)
    return found if scored else found._replace(scores=None)


def summarize_eager_rows(strip: Strip) -> dict[str, Tensor]:
    """What the rows of the model's own function give."""
    rows = MapStripRows(strip.weights, *strip[1:5], strip.visible, None, strip.scores)
    found = {
        "row_sums": rows.row_sums,
        "entropy": rows.entropy,
        "largest_weights": rows.largest_weights,
        "sums_of_squares": rows.sums_of_squares,
        "weighted_distances": rows.weighted_distances,
    }
    if strip.scores is not None:
        found["maximum_scores"] = rows.maximum_scores
    return found


def require_close_to_eager(ours: Tensor, theirs: Tensor, size: float) -> None:
    if (
        ours.shape != theirs.shape
        or not float((ours - theirs).abs().max()) <= ONE_PASS_ROW.tolerance_for_dtype() * size
    ):
        raise NotCovered("another formula")
