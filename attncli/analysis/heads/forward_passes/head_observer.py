"""Observe one forward pass of a model: every head's map in strips, and every state."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from attncli.analysis.heads.forward_passes.strongest_token_pairs import HeadPairs, StrongestPairs
from attncli.analysis.heads.forward_passes.uniform_attention_control import (
    UniformAttentionControl,
    VisibleSpans,
)
from attncli.capture import STRIP_MEMORY, AttentionSite, MapShape, Strip, capture_attention
from attncli.capture.linear_attention.linear_attention_heads import NO_LINEAR, LinearAttentionHeads
from attncli.capture.model_errors import translate_model_errors
from attncli.capture.model_structure.blocks import BlockStack, observe_block_states
from attncli.capture.one_pass.one_pass_checked_against_eager import OnePass
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.capture.softmax_attention.attention_output_projections import (
    observe_output_projections,
)
from attncli.errors import InputError, NonFiniteNumbers
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import METRICS
from attncli.metrics.activations import ACTIVATIONS
from attncli.metrics.activations._activation_state import ActivationPeak, ActivationState
from attncli.metrics.attention import ATTENTION, is_metric_of_map_alone
from attncli.metrics.attention._head_outputs import HeadOutputs
from attncli.metrics.attention._metric_accumulator import MetricTotals, Values
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.models.precision import run_in_model_precision
from attncli.records import NOT_APPLICABLE
from attncli.tolerances import FULL_ROW

NOTHING_TAKEN = f"{NOT_APPLICABLE}some token takes nothing from any, so it has no shares"

Tick = Callable[[float], None]
"""Called with the share of one attention that has been seen."""

Look = Callable[[AttentionSite, Strip], None]


def ignore_progress_share(share: float) -> None:
    """Ignore progress, for passes that are too short to report it."""


@dataclass(frozen=True)
class PassRequest:
    """What to measure in one forward pass."""

    heads: tuple[str, ...] = ()
    """Metrics of attention maps."""
    states: tuple[str, ...] = ()
    """Metrics of the states between blocks."""
    layers: Collection[int] | None = None
    """The layers whose attention is measured; None: all."""
    period: int | None = None
    """After how many tokens the text repeats itself."""
    ids: Tensor | None = None
    """[token]: ids of a generated text."""
    pairs: int = 0
    """How many of each head's strongest pairs of tokens are collected."""
    full_row: float = FULL_ROW.tolerance_for_dtype()
    """How far below 1 a row may sum where there is no learned sink."""


@dataclass
class PassResult:
    """The measurements of one forward pass."""

    heads: dict[AttentionSite, Values] = field(default_factory=dict)
    nulls: dict[AttentionSite, Values] = field(default_factory=dict)
    """The same of uniform attention over the same visible keys."""
    short: dict[AttentionSite, Tensor] = field(default_factory=dict)
    """[head]: by how much of themselves the singular values may be too small."""
    pairs: dict[AttentionSite, HeadPairs] = field(default_factory=dict)
    """The strongest pairs of tokens of each head."""
    states: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """By stack and state; 0 is the first block's input."""
    peaks: dict[tuple[str, int], ActivationPeak] = field(default_factory=dict)
    """The largest activation of a state."""
    silent: dict[AttentionSite, Tensor] = field(default_factory=dict)
    """[head]: whether all weights of its map are zero, for attention layers with such heads."""
    reconstruction_errors: dict[AttentionSite, float] = field(default_factory=dict)
    """‖A v - y‖ / ‖y‖ of each linear layer."""
    paths: Counter[str] = field(default_factory=Counter)
    """How many attentions were computed in one pass, and how many by the model's own functions, and why."""
    tokens: int = 0
    """Tokens of the longest attention: images have patches, whatever their size."""


@dataclass
class HeadObserver:
    """Accumulates strips of one attention layer at a time; memory grows with tokens, not with their
    square."""

    request: PassRequest
    null: UniformAttentionControl
    where: str
    advance: Tick
    result: PassResult = field(default_factory=PassResult)
    site: AttentionSite | None = None
    again: bool = False
    """Whether the current attention layer was requested a second time and has not come yet."""
    empty: bool = False
    """Whether some row of the linear layer in work takes from no token."""

    def observe_map_rows(self, site: AttentionSite, strip: Strip) -> bool:
        """Measure a strip; at the last one, return whether the map is needed once more."""
        strip = move_to_float64_device(strip)
        if strip.contains_first_map_row:
            tokens = (
                strip.queries if site.is_self_attention else strip.keys
            )  # some keys are no tokens
            self.result.tokens = max(self.result.tokens, tokens)
            self.finish_attention_statistics()
            if self.request.layers is None or site.layer in self.request.layers:
                self.begin_attention_statistics(site, strip)
        if strip.round == 0:
            self.advance(strip.weights.shape[2] / strip.queries)
        if self.site is None:
            return False
        if strip.round == 0:
            self.spans.accumulate_map_rows(strip)
            self.mark_heads_with_weights(strip)
            if self.strongest is not None:
                self.strongest.accumulate_map_rows(strip)
        if site.is_linear_attention:
            self.empty = self.empty or not bool(strip.weights.any(dim=-1).all())
        self.totals.accumulate_map_rows(
            make_map_rows_for_metrics(strip, self.request.period, self.request.ids)
        )
        if strip.contains_last_map_row:
            self.again = self.totals.needs_another_map_pass()
        return self.again and strip.contains_last_map_row

    def begin_attention_statistics(self, site: AttentionSite, strip: Strip) -> None:
        self.site = site
        own = site.is_self_attention or site.is_differential_map or site.is_linear_attention
        same_tokens = own and strip.queries == strip.keys
        self.totals = MetricTotals(
            self.request.heads, same_tokens, site.is_differential_map, site.is_linear_attention
        )
        self.empty = False
        self.weighed = torch.zeros(strip.weights.shape[:2], dtype=torch.bool)
        """[batch, head]: whether some weight is not zero."""
        self.totals.full_row = self.request.full_row
        self.total = strip.total
        self.spans = VisibleSpans(strip.queries, strip.keys)
        self.strongest = StrongestPairs(strip) if self.request.pairs else None

    def mark_heads_with_weights(self, strip: Strip) -> None:
        """Mark heads with a nonzero weight, until all have one."""
        if not self.weighed.all():
            rows = strip.weights.any(dim=-1) if strip.statistics is None else strip.row_sums > 0.0
            self.weighed |= rows.any(dim=-1).cpu()

    def finish_attention_statistics(self) -> None:
        """The attention before is complete."""
        if self.again:
            raise InputError(
                f"{self.where}: {self.site.name if self.site else 'an attention'} was to be seen once more and was not, so "
                "its singular values cannot be vouched for."
            )
        if self.site is not None:
            totals = self.totals
            self.result.heads[self.site] = self.collect_values_of_attention(self.site, totals)
            if self.strongest is not None:
                self.result.pairs[self.site] = self.strongest.select_strongest_pairs(
                    self.request.pairs
                )
            if (short := totals.find_singular_value_shortfall()) is not None:
                self.result.short[self.site] = short
            even = self.null.measure_uniform_attention(
                self.spans,
                self.request.heads,
                totals.same_tokens,
                self.request.period,
                self.total,
                self.request.ids,
            )
            self.result.nulls[self.site] = {
                **even,
                **equal_shares_of_head_output(self.result.heads[self.site]),
            }
        self.site = None

    def collect_values_of_attention(self, site: AttentionSite, totals: MetricTotals) -> Values:
        """Of an attention that has been seen whole."""
        if self.empty:
            return dict.fromkeys(self.request.heads, NOTHING_TAKEN)
        silent, values = ~self.weighed.any(dim=0), totals.compute_metric_values()
        if not silent.any():
            return values
        self.result.silent[site] = silent
        return {
            name: mask_metrics_of_zero_maps(silent, name, value) for name, value in values.items()
        }

    def observe_head_outputs(
        self, site: AttentionSite, context: Tensor, projection: Tensor
    ) -> None:
        if site == self.site:
            self.totals.measure_head_outputs(
                move_to_float64_device(HeadOutputs(context, projection))
            )

    def observe_head_gates(
        self, site: AttentionSite, gate: Tensor, context: Tensor, projection: Tensor
    ) -> None:
        if site == self.site:
            self.totals.measure_gates(*map(move_to_float64_device, (gate, context, projection)))

    def observe_hidden_state(self, stack: str, index: int, state: Tensor) -> None:
        """A state [batch of one, token, feature]."""
        own = move_to_float64_device(state[0].detach())
        self.measure_and_store_state(self.result, (stack, index), ActivationState(own))

    def measure_and_store_state(
        self, seen: PassResult, place: tuple[str, int], whole: ActivationState
    ) -> None:
        if not whole.largest_magnitude < float("inf"):
            raise NonFiniteNumbers(
                f"{self.where}: the state after layer {place[1]} of {place[0]} is not finite."
            )
        seen.states[place] = measure_hidden_state(whole, self.request.states)
        seen.peaks[place] = whole.find_largest_activation()


def describe_attention_implementations(passes: Sequence[PassResult]) -> dict[str, str]:
    """How the attentions of these passes were computed, for a report's environment; empty where none was on the interface."""
    counts: Counter[str] = Counter()
    for each in passes:
        counts.update(each.paths)
    total = counts.total()
    parts = [f"{why}, {count} of {total}" for why, count in counts.most_common()]
    return {"attention": "; ".join(parts)} if parts else {}


def mask_metrics_of_zero_maps(silent: Tensor, name: str, value: Tensor | str) -> Tensor | str:
    """Remove map metrics of all-zero heads: a map without weights is neither local nor uniform."""
    if isinstance(value, str) or not is_metric_of_map_alone(name):
        return value
    return value.masked_fill(silent.to(value.device)[(..., *(None,) * (value.dim() - 1))], math.nan)


def equal_shares_of_head_output(values: Values) -> Values:
    """The shares of output if all heads wrote the same amount."""
    found = {
        name: value
        for name, value in values.items()
        if ATTENTION.declaration_of_entry(name).of == "outputs"
    }
    return {
        name: torch.full((1,), 1.0 / len(value), dtype=torch.float64)
        for name, value in found.items()
        if isinstance(value, Tensor)
    }


def make_map_rows_for_metrics(
    strip: Strip, period: int | None, ids: Tensor | None = None
) -> MapStripRows:
    known = strip.statistics
    if known is not None and not strip.has_weights:
        return known.make_row_statistics(strip.scores is not None, period, ids, strip.sides)
    rows = MapStripRows(
        strip.weights,
        strip.first_query,
        strip.first_key,
        strip.queries,
        strip.keys,
        visible=strip.visible,
        period=period,
        scores=strip.scores,
        sides=strip.sides,
        applied=strip.signed_map,
        ids=None if ids is None else ids.to(strip.weights.device),
    )
    rows.__dict__.update({} if known is None else known.row_statistics_by_name())
    return rows


def measure_hidden_state(state: ActivationState, names: Collection[str]) -> dict[str, float]:
    """Metrics of the model's own numbers, and of the state as common row and residual in float64."""
    split = None
    found = {}
    for name in names:
        if name in ACTIVATIONS.names():
            found[name] = ACTIVATIONS[name](state)
        else:
            split = split or SplitState.from_states(state.values.to("cpu", torch.float64).numpy())
            found[name] = METRICS[name](split)
    return found


def measure_forward_pass(
    body: nn.Module,
    stacks: tuple[BlockStack, ...],
    kwargs: Mapping[str, Tensor],
    request: PassRequest,
    null: UniformAttentionControl,
    where: str,
    tick: Tick,
    on_strip: Look | None = None,
    strip_memory: int = STRIP_MEMORY,
    proved: Mapping[AttentionSite, MapShape] | None = None,
    linear: LinearAttentionHeads = NO_LINEAR,
    apart: Collection[str] = (),
) -> PassResult:
    """Run the model once; `on_strip` receives every strip too. Only attention layers in `proved` may
    occur.

    `apart`: other softmax layers, which are left out on purpose.
    """
    observer = HeadObserver(request, null, where, tick)
    return observe_forward_pass(
        observer,
        body,
        stacks,
        kwargs,
        on_strip,
        strip_memory=strip_memory,
        proved=proved,
        linear=linear,
        apart=apart,
    )


def observe_forward_pass(
    observer: HeadObserver,
    body: nn.Module,
    stacks: tuple[BlockStack, ...],
    kwargs: Mapping[str, Tensor],
    on_strip: Look | None = None,
    strip_memory: int = STRIP_MEMORY,
    proved: Mapping[AttentionSite, MapShape] | None = None,
    linear: LinearAttentionHeads = NO_LINEAR,
    apart: Collection[str] = (),
) -> PassResult:
    """Run the model once for an observer."""
    request = observer.request

    def observe_map_rows(site: AttentionSite, strip: Strip) -> bool:
        if strip.round == 0:
            for take in takes if on_strip is None else [*takes, on_strip]:
                take(site, strip)
        return observer.observe_map_rows(site, strip)

    extra_names = {ATTENTION.declaration_of_entry(name).of for name in request.heads}
    weights = on_strip is not None or request.pairs > 0
    one_pass = OnePass(request.heads, request.period, weights)
    with (
        translate_model_errors(body, {observer.where: kwargs}),
        torch.no_grad(),
        run_in_model_precision(body),
        capture_projections(body, observer, extra_names) as takes,
        observe_block_states(body, stacks, observer.observe_hidden_state)
        if request.states
        else nullcontext(),
        capture_attention(body, observe_map_rows, strip_memory, proved, apart, one_pass),
        (
            capture_linear_heads(body, linear, observer, strip_memory)
            if linear.layers
            else nullcontext({})
        ) as missed,
    ):
        body(**kwargs)
        observer.finish_attention_statistics()  # in the model's own precision, as the other attentions
    observer.result.reconstruction_errors.update(missed)
    observer.result.paths.update(one_pass.describe_implementations_used())
    if proved is not None:
        refuse_unmeasured_heads(observer.result, request, proved, linear)
    return observer.result


def capture_linear_heads(
    body: nn.Module, linear: LinearAttentionHeads, observer: HeadObserver, memory: int
) -> AbstractContextManager[Mapping[AttentionSite, float]]:
    """Within, the observer receives the maps of linear layers too."""
    from attncli.capture.linear_attention.linear_attention_capture import capture_linear_attention

    return capture_linear_attention(
        body, linear.layers, linear.heads, observer.observe_map_rows, memory
    )


def refuse_unmeasured_heads(
    seen: PassResult,
    request: PassRequest,
    proved: Mapping[AttentionSite, MapShape],
    linear: LinearAttentionHeads = NO_LINEAR,
) -> None:
    """Check that exactly the verified heads of the requested layers were measured."""
    due = {
        site: shape.heads
        for site, shape in proved.items()
        if request.layers is None or site.layer in request.layers
    } | {site: len(heads) for site, heads in linear.heads.items()}
    for metric in request.heads:
        values = {site: found.get(metric) for site, found in seen.heads.items()}
        known = {
            site: len(value) if isinstance(value, Tensor) else due.get(site)
            for site, value in values.items()
        }
        if known != due:
            wrong = next(site for site in (*known, *due) if known.get(site) != due.get(site))
            raise InputError(
                f"{metric} was measured of {known.get(wrong, 0)} heads of {wrong.name}, which has {due.get(wrong, 0)}: the "
                "numbers cannot be vouched for."
            )


@contextmanager
def capture_projections(
    body: nn.Module, observer: HeadObserver, extra: Collection[str]
) -> Iterator[list[Look]]:
    """Capture output projections and gates if a requested metric needs them; what each strip is then passed to."""
    with ExitStack() as watched:
        takes: list[Look] = []
        if "outputs" in extra:
            takes.append(
                watched.enter_context(
                    observe_output_projections(body, observer.observe_head_outputs)
                )
            )
        if "gates" in extra:
            from attncli.capture.softmax_attention.attention_output_gates import (
                observe_output_gates,
            )

            takes.append(
                watched.enter_context(observe_output_gates(body, observer.observe_head_gates))
            )
        yield takes
