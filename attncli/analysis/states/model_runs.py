"""Variants of a loaded model over texts: every block's state is measured as it passes.

With common row and residual carried apart no state is kept. In plain numbers the states of one pass are, until a second
pass with its last bits disturbed has shown what rounding has left of them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from attncli.ablation import Anatomy, switched
from attncli.ablation.tags.block_run import BlockRun
from attncli.analysis.states.significant_digits import (
    MOVES,
    BothPasses,
    apart,
    is_known,
    uncertainties,
    why_unknown,
)
from attncli.analysis.states.state_metrics import StateMeters, StatesBefore
from attncli.analysis.states.trajectories import EXACT, Trajectory
from attncli.capture.context import eager_everywhere
from attncli.capture.reruns.fixed_rng import same_chance
from attncli.capture.reruns.perturbed_rounding import disturbed
from attncli.capture.stacks.blocks import Stack, watching_states
from attncli.capture.stacks.token_layout import as_tokens
from attncli.errors import InputError
from attncli.maths.residuals.scaled import Array
from attncli.maths.residuals.split import Split
from attncli.models.inputs.texts import ModelInput
from attncli.models.loading.precision import own_precision
from attncli.networks.variants import Switches
from attncli.tensor_subclasses.residual_split.rounding_samples import LastBits
from attncli.tensor_subclasses.residual_split.split_run import Move, exact_code, run_exactly
from attncli.tensor_subclasses.residual_split.split_tensor import SplitTensor

T = TypeVar("T")


class StatePlace(NamedTuple):
    """Where in the model states are measured."""

    stack: str
    after: str = ""
    """After a sub-block of every block, such as its attention; empty: after whole blocks."""


Curves = Mapping[StatePlace, Trajectory]


@dataclass(frozen=True)
class CollapseSubject:
    """A model that is about to be run, with what is known of its blocks."""

    body: nn.Module
    anatomy: Anatomy
    exact: bool
    """Whether common row and residual are carried apart."""
    eager_alone: bool = False
    """Whether only the model's eager attention is to be trusted."""
    why_plain: Mapping[str, str] | None = None
    """The variants that are run in plain numbers all the same, and why; None where exactness was asked for, so that
    whatever has no rule ends the run."""

    @property
    def stacks(self) -> tuple[Stack, ...]:
        return self.anatomy.stacks

    def in_plain_numbers(self, variants: Iterable[str]) -> bool:
        """Whether any of these variants is."""
        return not self.exact or any(name in (self.why_plain or ()) for name in variants)

    @property
    def dtype(self) -> str:
        """Of its plain numbers."""
        return str(next(self.body.parameters()).dtype).removeprefix("torch.")


Lines = dict[StatePlace, dict[str, list[float]]]
"""Per place and metric a number for every state; what never came is nan, as rounding has swallowed it."""


class Recorder:
    """Measures states as they come."""

    def __init__(
        self, stacks: Sequence[Stack], metrics: Sequence[str], where: str, over: int = 1
    ) -> None:
        self.metrics = StateMeters(metrics)
        self.where = where
        self.lengths = {stack.name: len(stack.calls) + 1 for stack in stacks}
        self.values: Lines = {}
        self.before: StatesBefore[Split] = StatesBefore(over)
        for stack in stacks:
            self.place(self.values, StatePlace(stack.name), self.metrics.names)

    def place(
        self, lines: Lines, place: StatePlace, names: Iterable[str]
    ) -> dict[str, list[float]]:
        """The curves of a place, begun when they are first seen."""
        line = lines.setdefault(place, {})
        for name in names:
            line.setdefault(name, [math.nan] * self.lengths[place.stack])
        return line

    def after_block(self, stack: str, index: int, state: Tensor) -> None:
        self.plain(StatePlace(stack), index, state)

    def within(self, run: BlockRun, after: str, stream: Tensor) -> None:
        """The stream between two sub-blocks."""
        stream = as_tokens(stream, 1, run.call.module)
        self.plain(StatePlace(run.stack, after), run.call.layer + 1, stream)

    def plain(self, place: StatePlace, index: int, state: Tensor) -> None:
        """A state [batch of one, token, feature] of the model itself."""
        array = state[0].detach().to("cpu", torch.float64)
        if not bool(torch.isfinite(array).all()):
            token = int((~torch.isfinite(array)).any(dim=1).nonzero()[0])
            raise InputError(
                f"{self.where}: the state after layer {index} of {place.stack} is not finite at token {token}."
            )
        self.numbers(place, index, array.numpy())

    def numbers(self, place: StatePlace, index: int, state: Array) -> None:
        self.split(place, index, Split.of(state))

    def split(self, place: StatePlace, index: int, state: Split) -> None:
        self.place(self.values, place, self.metrics.names)
        self.note(self.values, place, index, self.metrics.state(state))
        if self.metrics.of_step:
            for at, before in steps_to(self.before, place, index):
                self.note(self.values, at, index, self.metrics.step(before, state))
            remember(self.before, place, index, state)

    def note(self, lines: Lines, place: StatePlace, index: int, found: Mapping[str, float]) -> None:
        line = self.place(lines, place, found)
        for name, value in found.items():
            line[name][index] = value


class SplitPass(Recorder):
    """Beside a stack whose stream is split, others may run in plain numbers: those are not what is asked for."""

    def after_split_block(self, stack: Stack, index: int, state: Split) -> None:
        self.split(StatePlace(stack.name), index, state)

    def within(self, run: BlockRun, after: str, stream: Tensor) -> None:
        if isinstance(stream, SplitTensor):
            self.split(StatePlace(run.stack, after), run.call.layer + 1, stream.state())


def steps_to(
    before: StatesBefore[T], place: StatePlace, index: int
) -> Iterator[tuple[StatePlace, T | None]]:
    """What leads to a state: the whole block, its last sub-block too where there is a state before that; or a sub-block."""
    stack = place.stack
    if place.after:
        yield place, before.sub_block(stack, index)
        return
    yield place, before.block(stack, index)
    if before.was_within(stack, index):
        yield StatePlace(stack, before.last_name(stack)), before.sub_block(stack, index)


def remember(before: StatesBefore[T], place: StatePlace, index: int, state: T) -> None:
    if place.after:
        before.passed_within(place.stack, index, state, place.after)
    else:
        before.passed(place.stack, index, state)


class FirstPass(Recorder):
    """Keeps the states for the second pass."""

    def __init__(
        self, stacks: Sequence[Stack], metrics: Sequence[str], where: str, over: int = 1
    ) -> None:
        super().__init__(stacks, metrics, where, over)
        self.kept: dict[tuple[StatePlace, int], Array] = {}

    def numbers(self, place: StatePlace, index: int, state: Array) -> None:
        self.kept[place, index] = state.copy()
        super().numbers(place, index, state)


class SecondPass(Recorder):
    """Finds for each number of the first pass how far rounding may have moved it."""

    def __init__(self, first: FirstPass, stacks: Sequence[Stack]) -> None:
        over = first.before.over
        super().__init__(stacks, first.metrics.names, first.where, over)
        self.first = first
        self.uncertain: Lines = {}
        self.both: StatesBefore[BothPasses] = StatesBefore(over)

    def numbers(self, place: StatePlace, index: int, state: Array) -> None:
        first = self.first.kept.pop((place, index), None)
        if first is None or first.shape != state.shape:
            raise InputError(
                f"{self.where}: the states of a second run are not those of the first: its code draws at random, "
                "which is not understood."
            )
        now = BothPasses(first, state)
        self.compare(place, index, self.metrics.of_state, (now,))
        if self.metrics.of_step:
            for at, before in steps_to(self.both, place, index):
                self.place(self.uncertain, at, self.first.values[at])
                if before is not None and before.first.shape == first.shape:
                    self.compare(at, index, self.metrics.of_step, (before, now))
            remember(self.both, place, index, now)

    def compare(
        self,
        place: StatePlace,
        index: int,
        measures: Mapping[str, Callable[..., float]],
        states: tuple[BothPasses, ...],
    ) -> None:
        line = self.first.values[place]
        values = {name: line[name][index] for name in measures}
        self.place(self.uncertain, place, line)
        self.note(self.uncertain, place, index, uncertainties(measures, values, states))


def attention_code(subject: CollapseSubject) -> AbstractContextManager[None]:
    """Which code computes the attention: that of split tensors, the eager one, or what the model is set to."""
    if subject.exact:
        return exact_code(subject.body)
    return eager_everywhere(subject.body) if subject.eager_alone else nullcontext()


def run_text(
    subject: CollapseSubject,
    text: ModelInput,
    variants: Mapping[str, Switches],
    metrics: Sequence[str],
    tick: Callable[[], None],
    sub_blocks: bool = False,
    over: int = 1,
) -> dict[str, Curves]:
    """All variants of the model on one text; with `sub_blocks` also the states inside the blocks.

    `over`: how many blocks lie between the two states of metrics that compare states.
    """
    found: dict[str, Curves] = {}
    for name, switches in variants.items():
        one = Run(subject, text, switches, metrics, sub_blocks, f"{name}, {text.name}", over)
        found[name] = one.curves(name)
        tick()
    return found


@dataclass(frozen=True)
class Run:
    """One variant of a model on one text."""

    subject: CollapseSubject
    text: ModelInput
    switches: Switches
    metrics: Sequence[str]
    sub_blocks: bool
    where: str
    over: int = 1

    def curves(self, name: str) -> Curves:
        """Exact if it is to be, and otherwise plain, with what is known of that."""
        subject = self.subject
        if not subject.exact:
            return self.in_plain_numbers("")
        if subject.why_plain is None:
            return self.exactly()
        why = subject.why_plain.get(name)
        if why is None:
            try:
                return self.exactly()
            except InputError as error:
                why = without_advice(error)
        return replace(self, subject=replace(subject, exact=False)).in_plain_numbers(why)

    def exactly(self) -> Curves:
        """Common row and residual apart; twice where blocks may make last bits large, and null where that changes much."""
        first = self.split_pass()
        if not self.may_amplify():
            return {place: Trajectory(values, [], EXACT) for place, values in first.items()}
        second = self.split_pass(LastBits())
        return {
            place: known(values, differences(values, second[place]), EXACT, "", holds_exactly)
            for place, values in first.items()
        }

    def split_pass(self, move: Move | None = None) -> Lines:
        """The numbers of one exact pass; `move`: what becomes of each stream as it enters a block."""
        subject = self.subject
        record = SplitPass(subject.stacks, self.metrics, self.where, self.over)
        with self.code(record):
            run_exactly(
                subject.body, subject.stacks, self.text.kwargs, record.after_split_block, move
            )
        return record.values

    def may_amplify(self) -> bool:
        """Whether the stream goes through anything but attention without a skip beside it.

        Attention draws tokens together, and a skip hands on what it is given; but a hundred MLPs without skips, each making
        differences some times larger, turn the last bit of a number into the first digit of the residual.
        """
        anatomy, switches = self.subject.anatomy, self.switches
        mixers = any(anatomy.has_mixers(stack.name) for stack in self.subject.stacks)
        return (switches.mlp and not switches.mlp_skip) or (mixers and not switches.skip)

    def in_plain_numbers(self, why: str, first: FirstPass | None = None) -> Curves:
        """As the model computes, twice, and null where the two passes agree in less than is asked for; `first`: the first
        of the two, where it is made already."""
        first = first or self.first_plain_pass()
        second = SecondPass(first, self.subject.stacks)
        self.once(second, disturbed(self.subject.stacks))
        arithmetic = self.subject.dtype
        return {
            place: known(values, second.uncertain[place], arithmetic, why)
            for place, values in first.values.items()
        }

    def first_plain_pass(self) -> FirstPass:
        """As the model computes, its states kept."""
        first = FirstPass(self.subject.stacks, self.metrics, self.where, self.over)
        self.once(first)
        return first

    def once(self, record: Recorder, beside: AbstractContextManager[None] | None = None) -> None:
        """One pass as the model computes, watched."""
        body = self.subject.body
        with (
            same_chance(),
            self.code(record),
            watching_states(body, self.subject.stacks, record.after_block),
            beside or nullcontext(),
        ):
            body(**self.text.kwargs)

    @contextmanager
    def code(self, record: Recorder) -> Iterator[None]:
        """The model without the parts that are off, and with the attention that the arithmetic needs."""
        body = self.subject.body
        within = record.within if self.sub_blocks else None
        with (
            torch.no_grad(),
            own_precision(body),
            attention_code(self.subject),
            switched(body, self.subject.anatomy, self.switches, within),
        ):
            yield


def differences(
    values: Mapping[str, list[float]], others: Mapping[str, list[float]]
) -> dict[str, list[float]]:
    """How far rounding may have moved each number of an exact pass, by the same numbers of a second one.

    What a block has lost no later one finds again, though two numbers may meet by chance.
    """
    return {
        name: list(accumulate(map(moved, line, others[name]), max)) for name, line in values.items()
    }


def moved(value: float, other: float) -> float:
    """Nothing where there is no number that might be wrong."""
    return MOVES * apart(value, other) if math.isfinite(value) else 0.0


def known(
    values: Mapping[str, list[float]],
    uncertain: Mapping[str, list[float]],
    arithmetic: str,
    why_plain: str,
    holds: Callable[[float, float], bool] = is_known,
) -> Trajectory:
    """The numbers that rounding has left, and why the others are not known."""
    unknown = {
        name: [
            "" if holds(value, by) else why_unknown(value, by, arithmetic)
            for value, by in zip(line, uncertain[name], strict=True)
        ]
        for name, line in values.items()
    }
    measured = {
        name: [math.nan if why else value for value, why in zip(line, unknown[name], strict=True)]
        for name, line in values.items()
    }
    return Trajectory(measured, [], arithmetic, why_plain, dict(uncertain), unknown)


def holds_exactly(value: float, uncertainty: float) -> bool:
    """In exact arithmetic nothing is 0 by rounding, and what could not be resolved has no number that might be wrong."""
    return not math.isfinite(value) or is_known(value, uncertainty)


def without_advice(refusal: InputError) -> str:
    """Why it is not exact, for who has not asked that it be."""
    return str(refusal).removesuffix(".").partition(": leave `exact` out")[0]
