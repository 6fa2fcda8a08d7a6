"""One forward pass of a model, looked at as it runs: every head's map in strips, every state as it passes."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from attncli.analysis.heads.forward_passes.strongest_pairs import HeadPairs, StrongestQueries
from attncli.analysis.heads.forward_passes.uniform_attention import UniformControl, VisibleSpans
from attncli.capture import (
    STRIP_MEMORY,
    AttentionSite,
    MapShape,
    Strip,
    capture_attention,
    observe_gates,
    observe_projections,
)
from attncli.capture.linear.linear_layers import NO_LINEAR, LinearHeads, capture_linear_layers
from attncli.capture.model_errors import translate_model_errors
from attncli.capture.stacks.blocks import Stack, observe_states
from attncli.errors import InputError, NotFinite
from attncli.maths.residuals.split import SplitState
from attncli.metrics import METRICS
from attncli.metrics.activations import ACTIVATIONS
from attncli.metrics.activations._state import ActivationState, Peak
from attncli.metrics.attention import is_map_metric, metric_spec
from attncli.metrics.attention._outputs import HeadOutputs
from attncli.metrics.attention._strip_rows import StripRows
from attncli.metrics.attention._totals import FULL_ROW, MetricTotals, Values
from attncli.models.loading.precision import own_precision
from attncli.records import NOT_APPLICABLE

NOTHING_TAKEN = f"{NOT_APPLICABLE}some token takes nothing from any, so it has no shares"

Tick = Callable[[float], None]
"""Called with the share of one attention that has been seen."""

Look = Callable[[AttentionSite, Strip], None]


def ignore_share(share: float) -> None:
    """For passes that are too short to tell of."""


@dataclass(frozen=True)
class PassRequest:
    """What is measured in one forward pass."""

    heads: tuple[str, ...] = ()
    """Metrics of attention maps."""
    states: tuple[str, ...] = ()
    """Metrics of the states between blocks."""
    layers: Collection[int] | None = None
    """The layers whose attention is measured; None: all."""
    period: int | None = None
    """After how many tokens the text repeats itself."""
    ids: Tensor | None = None
    """[token]: of a text that was made to be measured on."""
    pairs: int = 0
    """How many of each head's strongest pairs of tokens are kept."""
    full_row: float = FULL_ROW
    """How far below 1 a row may sum that has no learned sink beside it."""


@dataclass
class PassResult:
    """What one forward pass has shown."""

    heads: dict[AttentionSite, Values] = field(default_factory=dict)
    nulls: dict[AttentionSite, Values] = field(default_factory=dict)
    """The same of uniform attention over the same visible keys."""
    short: dict[AttentionSite, Tensor] = field(default_factory=dict)
    """[head]: by how much of themselves the singular values may be too small."""
    pairs: dict[AttentionSite, HeadPairs] = field(default_factory=dict)
    """The strongest pairs of tokens of each head."""
    states: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """By stack and state; 0 is the first block's input."""
    peaks: dict[tuple[str, int], Peak] = field(default_factory=dict)
    """The largest activation of a state."""
    silent: dict[AttentionSite, Tensor] = field(default_factory=dict)
    """[head]: whether no row holds any weight, of attentions where that is so of some."""
    missed: dict[AttentionSite, float] = field(default_factory=dict)
    """‖A v - y‖ / ‖y‖ of each linear layer."""
    tokens: int = 0
    """Of the longest attention: images have patches, whatever their size."""


class HeadObserver:
    """Adds up strips of one attention at a time; what is held grows with tokens, not with their square."""

    def __init__(self, wanted: PassRequest, null: UniformControl, where: str, tick: Tick) -> None:
        self.wanted = wanted
        self.null = null
        self.where = where
        self.advance = tick
        self.seen = PassResult()
        self.site: AttentionSite | None = None
        self.again = False
        """Whether the attention in work has been asked for once more, and has not come."""
        self.empty = False
        """Whether some row of the linear layer in work takes from no token."""

    def strip(self, site: AttentionSite, strip: Strip) -> bool:
        """Whether the map must come once more, said at its last strip."""
        if strip.is_first:
            tokens = strip.queries if site.is_self else strip.keys  # some keys are no tokens
            self.seen.tokens = max(self.seen.tokens, tokens)
            self.finish()
            if self.wanted.layers is None or site.layer in self.wanted.layers:
                self.begin(site, strip)
        if strip.round == 0:
            self.advance(strip.weights.shape[2] / strip.queries)
        if self.site is None:
            return False
        if strip.round == 0:
            self.spans.add(strip)
            self.add_weighed(strip)
            if self.wanted.pairs:
                self.strongest.add(strip)
        if site.is_linear:
            self.empty = self.empty or not bool(strip.weights.any(dim=-1).all())
        self.totals.add(strip_to_rows(strip, self.wanted.period, self.wanted.ids))
        if strip.is_last:
            self.again = self.totals.wants_another_round()
        return self.again and strip.is_last

    def begin(self, site: AttentionSite, strip: Strip) -> None:
        self.site = site
        own = site.is_self or site.is_difference or site.is_linear
        same_tokens = own and strip.queries == strip.keys
        self.totals = MetricTotals(
            self.wanted.heads, same_tokens, site.is_difference, site.is_linear
        )
        self.empty = False
        self.weighed = torch.zeros(strip.weights.shape[1], dtype=torch.bool)
        self.totals.full_row = self.wanted.full_row
        self.total = strip.total
        self.spans = VisibleSpans(strip.queries, strip.keys)
        self.strongest = StrongestQueries(strip)

    def add_weighed(self, strip: Strip) -> None:
        """Which heads hold a weight other than 0; looked for only as long as some were not seen to."""
        if not self.weighed.all():
            self.weighed |= strip.weights.any(dim=-1).any(dim=-1).any(dim=0).cpu()

    def finish(self) -> None:
        """The attention before is complete."""
        if self.again:
            raise InputError(
                f"{self.where}: {self.site.name if self.site else 'an attention'} was to be seen once more and was not, so "
                "its singular values cannot be vouched for."
            )
        if self.site is not None:
            totals = self.totals
            self.seen.heads[self.site] = self.numbers_of(self.site, totals)
            if self.wanted.pairs:
                self.seen.pairs[self.site] = self.strongest.pairs(self.wanted.pairs)
            if (short := totals.short()) is not None:
                self.seen.short[self.site] = short
            even = self.null.of(
                self.spans,
                self.wanted.heads,
                totals.same_tokens,
                self.wanted.period,
                self.total,
                self.wanted.ids,
            )
            self.seen.nulls[self.site] = {
                **even,
                **uniform_output_shares(self.seen.heads[self.site]),
            }
        self.site = None

    def numbers_of(self, site: AttentionSite, totals: MetricTotals) -> Values:
        """Of an attention that has been seen whole."""
        if self.empty:
            return dict.fromkeys(self.wanted.heads, NOTHING_TAKEN)
        if not self.weighed.all():
            self.seen.silent[site] = ~self.weighed
        return self.but_silent(totals.values())

    def but_silent(self, found: Values) -> Values:
        """The numbers of the heads that hold a weight other than 0."""
        if self.weighed.all():
            return found
        return {
            name: mask_silent_heads(~self.weighed, name, value) for name, value in found.items()
        }

    def outputs(self, site: AttentionSite, context: Tensor, projection: Tensor) -> None:
        if site == self.site:
            self.totals.add_outputs(HeadOutputs(context, projection))

    def gates(self, site: AttentionSite, gate: Tensor, context: Tensor, projection: Tensor) -> None:
        if site == self.site:
            self.totals.add_gates(gate, context, projection)

    def state(self, stack: str, index: int, state: Tensor) -> None:
        """A state [batch of one, token, feature]."""
        whole = ActivationState(state[0].detach())
        if not whole.largest < float("inf"):
            raise NotFinite(
                f"{self.where}: the state after layer {index} of {stack} is not finite."
            )
        self.seen.states[stack, index] = measure_state(whole, self.wanted.states)
        self.seen.peaks[stack, index] = whole.peak()


def mask_silent_heads(silent: Tensor, name: str, value: Tensor | str) -> Tensor | str:
    """A metric of maps has no number where there is no map: what no query looks at is neither near nor uniform."""
    if isinstance(value, str) or not is_map_metric(name):
        return value
    return value.masked_fill(silent.to(value.device)[(..., *(None,) * (value.dim() - 1))], math.nan)


def uniform_output_shares(values: Values) -> Values:
    """What the heads would write if all wrote as much."""
    found = {name: value for name, value in values.items() if metric_spec(name).of == "outputs"}
    return {
        name: torch.full((1,), 1.0 / len(value), dtype=torch.float64)
        for name, value in found.items()
        if isinstance(value, Tensor)
    }


def strip_to_rows(strip: Strip, period: int | None, ids: Tensor | None = None) -> StripRows:
    return StripRows(
        strip.weights,
        strip.first_query,
        strip.first_key,
        strip.queries,
        strip.keys,
        strip.visible,
        period,
        strip.scores,
        strip.sides,
        strip.applied,
        None if ids is None else ids.to(strip.weights.device),
    )


def measure_state(state: ActivationState, names: Collection[str]) -> dict[str, float]:
    """Metrics of the model's own numbers, and of the state as common row and residual in float64."""
    split = None
    found = {}
    for name in names:
        if name in ACTIVATIONS.names():
            found[name] = ACTIVATIONS[name](state)
        else:
            split = split or SplitState.of(state.values.to("cpu", torch.float64).numpy())
            found[name] = METRICS[name](split)
    return found


def measure_forward_pass(
    body: nn.Module,
    stacks: tuple[Stack, ...],
    kwargs: Mapping[str, Tensor],
    wanted: PassRequest,
    null: UniformControl,
    where: str,
    tick: Tick,
    also: Look | None = None,
    strip_memory: int = STRIP_MEMORY,
    proved: Mapping[AttentionSite, MapShape] | None = None,
    linear: LinearHeads = NO_LINEAR,
    apart: Collection[str] = (),
) -> PassResult:
    """Run the model once; `also` is shown every strip too, and no attention may be seen but those that were `proved`.

    `apart`: what takes a softmax too, and was found to be left out.
    """
    observer = HeadObserver(wanted, null, where, tick)
    return observe_forward_pass(
        observer, body, stacks, kwargs, also, strip_memory, proved, linear, apart
    )


def observe_forward_pass(
    observer: HeadObserver,
    body: nn.Module,
    stacks: tuple[Stack, ...],
    kwargs: Mapping[str, Tensor],
    also: Look | None = None,
    strip_memory: int = STRIP_MEMORY,
    proved: Mapping[AttentionSite, MapShape] | None = None,
    linear: LinearHeads = NO_LINEAR,
    apart: Collection[str] = (),
) -> PassResult:
    """Run the model once for an observer, as `look` does."""
    wanted = observer.wanted

    def strip(site: AttentionSite, strip: Strip) -> bool:
        if strip.round == 0:
            take(site, strip)
            if also is not None:
                also(site, strip)
        return observer.strip(site, strip)

    beside = {metric_spec(name).of for name in wanted.heads}
    with (
        translate_model_errors(body, {observer.where: kwargs}),
        torch.no_grad(),
        own_precision(body),
        capture_projections(body, observer, beside) as take,
        capture_states(body, stacks, observer, bool(wanted.states)),
        capture_attention(body, strip, strip_memory, proved, apart),
        capture_linear_layers(
            body, linear.layers, linear.heads, observer.strip, strip_memory
        ) as run,
    ):
        body(**kwargs)
        observer.finish()  # in the model's own precision, as the other attentions
    observer.seen.missed.update(run.missed)
    if proved is not None:
        refuse_unmeasured(observer.seen, wanted, proved, linear)
    return observer.seen


def refuse_unmeasured(
    seen: PassResult,
    wanted: PassRequest,
    proved: Mapping[AttentionSite, MapShape],
    linear: LinearHeads = NO_LINEAR,
) -> None:
    """What is measured are the heads that were proved, in the layers that were asked for, and no others."""
    due = {
        site: shape.heads
        for site, shape in proved.items()
        if wanted.layers is None or site.layer in wanted.layers
    } | {site: len(heads) for site, heads in linear.heads.items()}
    for metric in wanted.heads:
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
    body: nn.Module, observer: HeadObserver, beside: Collection[str]
) -> Iterator[Look]:
    """Where the heads' outputs or their gates are asked for, the layers that take them are looked for."""
    takes: list[Look] = []
    with ExitStack() as watched:
        if "outputs" in beside:
            takes.append(watched.enter_context(observe_projections(body, observer.outputs)))
        if "gates" in beside:
            takes.append(watched.enter_context(observe_gates(body, observer.gates)))

        def take(site: AttentionSite, strip: Strip) -> None:
            for each in takes:
                each(site, strip)

        yield take


@contextmanager
def capture_states(
    body: nn.Module, stacks: tuple[Stack, ...], observer: HeadObserver, wanted: bool
) -> Iterator[None]:
    if not wanted:
        yield
        return
    with observe_states(body, stacks, observer.state):
        yield
