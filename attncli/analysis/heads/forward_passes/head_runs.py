"""One forward pass of a model, looked at as it runs: every head's map in strips, every state as it passes."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from attncli.analysis.heads.forward_passes.strongest_pairs import HeadPairs, StrongestQueries
from attncli.analysis.heads.forward_passes.uniform_attention import Spans, UniformNull
from attncli.capture import (
    STRIP_MEMORY,
    Shape,
    Site,
    Strip,
    streaming,
    watching_gates,
    watching_projections,
)
from attncli.capture.linear.linear_layers import NO_LINEAR, LinearHeads, streaming_linear
from attncli.capture.model_errors import failures_of
from attncli.capture.stacks.blocks import Stack, watching_states
from attncli.errors import InputError, NotFinite
from attncli.maths.residuals.split import Split
from attncli.metrics import METRICS
from attncli.metrics.activations import ACTIVATIONS
from attncli.metrics.activations._state import Peak, State
from attncli.metrics.attention import nature, on_maps
from attncli.metrics.attention._outputs import Outputs
from attncli.metrics.attention._strip_rows import Rows
from attncli.metrics.attention._totals import FULL_ROW, Totals, Values
from attncli.models.loading.precision import own_precision
from attncli.records import NOT_APPLICABLE

NOTHING_TAKEN = f"{NOT_APPLICABLE}some token takes nothing from any, so it has no shares"

Tick = Callable[[float], None]
"""Called with the share of one attention that has been seen."""

Look = Callable[[Site, Strip], None]


def unheard(share: float) -> None:
    """For passes that are too short to tell of."""


@dataclass(frozen=True)
class Wanted:
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
class Seen:
    """What one forward pass has shown."""

    heads: dict[Site, Values] = field(default_factory=dict)
    nulls: dict[Site, Values] = field(default_factory=dict)
    """The same of uniform attention over the same visible keys."""
    short: dict[Site, Tensor] = field(default_factory=dict)
    """[head]: by how much of themselves the singular values may be too small."""
    pairs: dict[Site, HeadPairs] = field(default_factory=dict)
    """The strongest pairs of tokens of each head."""
    states: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """By stack and state; 0 is the first block's input."""
    peaks: dict[tuple[str, int], Peak] = field(default_factory=dict)
    """The largest activation of a state."""
    silent: dict[Site, Tensor] = field(default_factory=dict)
    """[head]: whether no row holds any weight, of attentions where that is so of some."""
    missed: dict[Site, float] = field(default_factory=dict)
    """‖A v - y‖ / ‖y‖ of each linear layer."""
    tokens: int = 0
    """Of the longest attention: images have patches, whatever their size."""


class Observer:
    """Adds up strips of one attention at a time; what is held grows with tokens, not with their square."""

    def __init__(self, wanted: Wanted, null: UniformNull, where: str, tick: Tick) -> None:
        self.wanted = wanted
        self.null = null
        self.where = where
        self.tick = tick
        self.seen = Seen()
        self.site: Site | None = None
        self.again = False
        """Whether the attention in work has been asked for once more, and has not come."""
        self.empty = False
        """Whether some row of the linear layer in work takes from no token."""

    def strip(self, site: Site, strip: Strip) -> bool:
        """Whether the map must come once more, said at its last strip."""
        if strip.is_first:
            tokens = strip.queries if site.is_self else strip.keys  # some keys are no tokens
            self.seen.tokens = max(self.seen.tokens, tokens)
            self.finish()
            if self.wanted.layers is None or site.layer in self.wanted.layers:
                self.begin(site, strip)
        if strip.round == 0:
            self.tick(strip.weights.shape[2] / strip.queries)
        if self.site is None:
            return False
        if strip.round == 0:
            self.spans.add(strip)
            self.add_weighed(strip)
            if self.wanted.pairs:
                self.strongest.add(strip)
        if site.is_linear:
            self.empty = self.empty or not bool(strip.weights.any(dim=-1).all())
        self.totals.add(as_rows(strip, self.wanted.period, self.wanted.ids))
        if strip.is_last:
            self.again = self.totals.wants_another_round()
        return self.again and strip.is_last

    def begin(self, site: Site, strip: Strip) -> None:
        self.site = site
        own = site.is_self or site.is_difference or site.is_linear
        same_tokens = own and strip.queries == strip.keys
        self.totals = Totals(self.wanted.heads, same_tokens, site.is_difference, site.is_linear)
        self.empty = False
        self.weighed = torch.zeros(strip.weights.shape[1], dtype=torch.bool)
        self.totals.full_row = self.wanted.full_row
        self.total = strip.total
        self.spans = Spans(strip.queries, strip.keys)
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
            self.seen.nulls[self.site] = {**even, **equal_shares(self.seen.heads[self.site])}
        self.site = None

    def numbers_of(self, site: Site, totals: Totals) -> Values:
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
        return {name: without(~self.weighed, name, value) for name, value in found.items()}

    def outputs(self, site: Site, context: Tensor, projection: Tensor) -> None:
        if site == self.site:
            self.totals.add_outputs(Outputs(context, projection))

    def gates(self, site: Site, gate: Tensor, context: Tensor, projection: Tensor) -> None:
        if site == self.site:
            self.totals.add_gates(gate, context, projection)

    def state(self, stack: str, index: int, state: Tensor) -> None:
        """A state [batch of one, token, feature]."""
        whole = State(state[0].detach())
        if not whole.largest < float("inf"):
            raise NotFinite(
                f"{self.where}: the state after layer {index} of {stack} is not finite."
            )
        self.seen.states[stack, index] = measured_state(whole, self.wanted.states)
        self.seen.peaks[stack, index] = whole.peak()


def without(silent: Tensor, name: str, value: Tensor | str) -> Tensor | str:
    """A metric of maps has no number where there is no map: what no query looks at is neither near nor uniform."""
    if isinstance(value, str) or not on_maps(name):
        return value
    return value.masked_fill(silent.to(value.device)[(..., *(None,) * (value.dim() - 1))], math.nan)


def equal_shares(values: Values) -> Values:
    """What the heads would write if all wrote as much."""
    found = {name: value for name, value in values.items() if nature(name).of == "outputs"}
    return {
        name: torch.full((1,), 1.0 / len(value), dtype=torch.float64)
        for name, value in found.items()
        if isinstance(value, Tensor)
    }


def as_rows(strip: Strip, period: int | None, ids: Tensor | None = None) -> Rows:
    return Rows(
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


def measured_state(state: State, names: Collection[str]) -> dict[str, float]:
    """Metrics of the model's own numbers, and of the state as common row and residual in float64."""
    split = None
    found = {}
    for name in names:
        if name in ACTIVATIONS.names():
            found[name] = ACTIVATIONS[name](state)
        else:
            split = split or Split.of(state.values.to("cpu", torch.float64).numpy())
            found[name] = METRICS[name](split)
    return found


def look(
    body: nn.Module,
    stacks: tuple[Stack, ...],
    kwargs: Mapping[str, Tensor],
    wanted: Wanted,
    null: UniformNull,
    where: str,
    tick: Tick,
    also: Look | None = None,
    strip_memory: int = STRIP_MEMORY,
    proved: Mapping[Site, Shape] | None = None,
    linear: LinearHeads = NO_LINEAR,
    apart: Collection[str] = (),
) -> Seen:
    """Run the model once; `also` is shown every strip too, and no attention may be seen but those that were `proved`.

    `apart`: what takes a softmax too, and was found to be left out.
    """
    observer = Observer(wanted, null, where, tick)
    return observe(observer, body, stacks, kwargs, also, strip_memory, proved, linear, apart)


def observe(
    observer: Observer,
    body: nn.Module,
    stacks: tuple[Stack, ...],
    kwargs: Mapping[str, Tensor],
    also: Look | None = None,
    strip_memory: int = STRIP_MEMORY,
    proved: Mapping[Site, Shape] | None = None,
    linear: LinearHeads = NO_LINEAR,
    apart: Collection[str] = (),
) -> Seen:
    """Run the model once for an observer, as `look` does."""
    wanted = observer.wanted

    def strip(site: Site, strip: Strip) -> bool:
        if strip.round == 0:
            take(site, strip)
            if also is not None:
                also(site, strip)
        return observer.strip(site, strip)

    beside = {nature(name).of for name in wanted.heads}
    with (
        failures_of(body, {observer.where: kwargs}),
        torch.no_grad(),
        own_precision(body),
        projections(body, observer, beside) as take,
        states(body, stacks, observer, bool(wanted.states)),
        streaming(body, strip, strip_memory, proved, apart),
        streaming_linear(body, linear.layers, linear.heads, observer.strip, strip_memory) as run,
    ):
        body(**kwargs)
        observer.finish()  # in the model's own precision, as the other attentions
    observer.seen.missed.update(run.missed)
    if proved is not None:
        refuse_unmeasured(observer.seen, wanted, proved, linear)
    return observer.seen


def refuse_unmeasured(
    seen: Seen, wanted: Wanted, proved: Mapping[Site, Shape], linear: LinearHeads = NO_LINEAR
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
def projections(body: nn.Module, observer: Observer, beside: Collection[str]) -> Iterator[Look]:
    """Where the heads' outputs or their gates are asked for, the layers that take them are looked for."""
    takes: list[Look] = []
    with ExitStack() as watched:
        if "outputs" in beside:
            takes.append(watched.enter_context(watching_projections(body, observer.outputs)))
        if "gates" in beside:
            takes.append(watched.enter_context(watching_gates(body, observer.gates)))

        def take(site: Site, strip: Strip) -> None:
            for each in takes:
                each(site, strip)

        yield take


@contextmanager
def states(
    body: nn.Module, stacks: tuple[Stack, ...], observer: Observer, wanted: bool
) -> Iterator[None]:
    if not wanted:
        yield
        return
    with watching_states(body, stacks, observer.state):
        yield
