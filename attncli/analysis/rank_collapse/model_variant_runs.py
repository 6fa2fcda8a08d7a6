"""Variants of a loaded model over texts: every block's state is measured during the pass.

With common row and residual separate no state is kept in memory. In plain numbers the states of one
pass are, until a second pass with perturbed last bits has shown how many digits rounding leaves.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from attncli.ablation import BlockAnatomy, ablate_sub_blocks
from attncli.ablation.model_probes.operations_between_blocks import UnchangedForward
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.analysis.rank_collapse.metrics_over_layers import EXACT, StateMetrics, Trajectory
from attncli.analysis.rank_collapse.significant_digits import (
    MOVES,
    PerturbedStatePair,
    absolute_difference_or_inf,
    estimate_uncertainties,
    explain_insignificant_value,
    has_significant_digits,
)
from attncli.analysis.rank_collapse.states_before_blocks import PreviousStates
from attncli.capture.attention_function_registry import force_eager_attention
from attncli.capture.model_structure.blocks import BlockStack, observe_block_states
from attncli.capture.model_structure.residual_stream import reshape_to_batch_token_feature
from attncli.capture.reruns.perturbed_rounding import perturb_rounding
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import format_dtype, run_in_model_precision
from attncli.networks.ablation_variants import AblationSwitches
from attncli.tensor_subclasses.residual_split.split_tensor import SplitTensor
from attncli.tensor_subclasses.residual_split.split_tensor_forward import (
    LastBitPerturbation,
    Move,
    accept_split_tensors,
    run_with_split_tensors,
)

T = TypeVar("T")


class StateLocation(NamedTuple):
    """Where in the model states are measured."""

    stack: str
    after: str = ""
    """After a sub-block of every block, such as its attention; empty: after whole blocks."""


Curves = Mapping[StateLocation, Trajectory]


@dataclass(frozen=True)
class CollapseModel:
    """A model prepared for its runs, with the properties of its blocks."""

    body: nn.Module
    anatomy: BlockAnatomy
    exact: bool
    """Whether common row and residual are computed separately."""
    eager_alone: bool = False
    """Whether only the model's eager attention is to be trusted."""
    why_plain: Mapping[str, str] | None = None
    """The variants that run in plain numbers nevertheless, and why; None where exactness was
    requested, so that an operation without a rule ends the run."""

    @property
    def stacks(self) -> tuple[BlockStack, ...]:
        return self.anatomy.stacks

    def needs_model_arithmetic(self, variants: Iterable[str]) -> bool:
        """Whether any of these variants is."""
        return not self.exact or any(name in (self.why_plain or ()) for name in variants)


Lines = dict[StateLocation, dict[str, list[float]]]
"""Per location and metric a number for every state; nan where none came, as for those lost to
rounding."""


class StateRecorder:
    """Measures states as they come."""

    def __init__(
        self, stacks: Sequence[BlockStack], metrics: Sequence[str], where: str, over: int = 1
    ) -> None:
        self.metrics = StateMetrics(metrics)
        self.where = where
        self.lengths = {stack.name: len(stack.calls) + 1 for stack in stacks}
        self.values: Lines = {}
        self.before: PreviousStates[SplitState] = PreviousStates(over)
        for stack in stacks:
            self.find_curves_at_location(
                self.values, StateLocation(stack.name), self.metrics.metric_names
            )

    def find_curves_at_location(
        self, lines: Lines, place: StateLocation, names: Iterable[str]
    ) -> dict[str, list[float]]:
        """The curves of a location, created on first use."""
        line = lines.setdefault(place, {})
        for name in names:
            line.setdefault(name, [math.nan] * self.lengths[place.stack])
        return line

    def record_state_after_block(self, stack: str, index: int, state: Tensor) -> None:
        self.record_model_state(StateLocation(stack), index, state)

    def record_state_within_block(self, run: BlockRun, after: str, stream: Tensor) -> None:
        """The stream between two sub-blocks."""
        stream = reshape_to_batch_token_feature(stream, 1, run.call.module)
        self.record_model_state(StateLocation(run.stack, after), run.call.layer + 1, stream)

    def record_model_state(self, place: StateLocation, index: int, state: Tensor) -> None:
        """A state [batch of one, token, feature] of the model itself."""
        array = state[0].detach().to("cpu", torch.float64)
        if not bool(torch.isfinite(array).all()):
            token = int((~torch.isfinite(array)).any(dim=1).nonzero()[0])
            raise InputError(
                f"{self.where}: the state after layer {index} of {place.stack} is not finite at token {token}."
            )
        self.record_state_array(place, index, array.numpy())

    def record_state_array(self, place: StateLocation, index: int, state: Array) -> None:
        self.record_common_row_and_residual(place, index, SplitState.from_states(state))

    def record_common_row_and_residual(
        self, place: StateLocation, index: int, state: SplitState
    ) -> None:
        self.find_curves_at_location(self.values, place, self.metrics.metric_names)
        self.record_metric_values(self.values, place, index, self.metrics.measure_state(state))
        if self.metrics.of_step:
            for at, before in find_previous_states(self.before, place, index):
                self.record_metric_values(
                    self.values, at, index, self.metrics.measure_step(before, state)
                )
            store_as_previous_state(self.before, place, index, state)

    def record_metric_values(
        self, lines: Lines, place: StateLocation, index: int, numbers: Mapping[str, float]
    ) -> None:
        line = self.find_curves_at_location(lines, place, numbers)
        for name, value in numbers.items():
            line[name][index] = value


class SplitStateRecorder(StateRecorder):
    """Split pass of one stack; other stacks beside it may run in plain numbers, since they are not
    measured."""

    def record_block_state(self, stack: BlockStack, index: int, state: SplitState) -> None:
        self.record_common_row_and_residual(StateLocation(stack.name), index, state)

    def record_state_within_block(self, run: BlockRun, after: str, stream: Tensor) -> None:
        if isinstance(stream, SplitTensor):
            self.record_common_row_and_residual(
                StateLocation(run.stack, after), run.call.layer + 1, stream.to_split_state()
            )


def find_previous_states(
    before: PreviousStates[T], place: StateLocation, index: int
) -> Iterator[tuple[StateLocation, T | None]]:
    """Yield the inputs that lead to a state: of the block, and of its last sub-block or of a
    sub-block."""
    stack = place.stack
    if place.after:
        yield place, before.state_before_sub_block(stack, index)
        return
    yield place, before.state_before_block(stack, index)
    if before.has_state_before_sub_block(stack, index):
        yield (
            StateLocation(stack, before.name_of_last_sub_block(stack)),
            before.state_before_sub_block(stack, index),
        )


def store_as_previous_state(
    before: PreviousStates[T], place: StateLocation, index: int, state: T
) -> None:
    if place.after:
        before.add_sub_block_state(place.stack, index, state, place.after)
    else:
        before.add_block_state(place.stack, index, state)


class FirstPassRecorder(StateRecorder):
    """Keeps the states for the second pass."""

    def __init__(
        self, stacks: Sequence[BlockStack], metrics: Sequence[str], where: str, over: int = 1
    ) -> None:
        super().__init__(stacks, metrics, where, over)
        self.states: dict[tuple[StateLocation, int], Array] = {}

    def record_state_array(self, place: StateLocation, index: int, state: Array) -> None:
        self.states[place, index] = state.copy()
        super().record_state_array(place, index, state)


class SecondPassRecorder(StateRecorder):
    """Finds for each number of the first pass how far rounding may have moved it."""

    def __init__(self, first: FirstPassRecorder, stacks: Sequence[BlockStack]) -> None:
        over = first.before.over
        super().__init__(stacks, first.metrics.metric_names, first.where, over)
        self.first = first
        self.uncertain: Lines = {}
        self.both: PreviousStates[PerturbedStatePair] = PreviousStates(over)

    def record_state_array(self, place: StateLocation, index: int, state: Array) -> None:
        first = self.first.states.pop((place, index), None)
        if first is None or first.shape != state.shape:
            raise InputError(
                f"{self.where}: the states of a second run are not those of the first: its code draws at random, "
                "which is not understood."
            )
        now = PerturbedStatePair(first, state)
        self.compare_with_first_pass(place, index, self.metrics.of_state, (now,))
        if self.metrics.of_step:
            for at, before in find_previous_states(self.both, place, index):
                self.find_curves_at_location(self.uncertain, at, self.first.values[at])
                if before is not None and before.first.shape == first.shape:
                    self.compare_with_first_pass(at, index, self.metrics.of_step, (before, now))
            store_as_previous_state(self.both, place, index, now)

    def compare_with_first_pass(
        self,
        place: StateLocation,
        index: int,
        measures: Mapping[str, Callable[..., float]],
        states: tuple[PerturbedStatePair, ...],
    ) -> None:
        line = self.first.values[place]
        values = {name: line[name][index] for name in measures}
        self.find_curves_at_location(self.uncertain, place, line)
        self.record_metric_values(
            self.uncertain, place, index, estimate_uncertainties(measures, values, states)
        )


def select_attention_implementation(subject: CollapseModel) -> AbstractContextManager[None]:
    """Select the attention code: that of split tensors, the eager one, or the model's own setting."""
    if subject.exact:
        return accept_split_tensors(subject.body)
    return force_eager_attention(subject.body) if subject.eager_alone else nullcontext()


def run_model_variants_on_text(
    subject: CollapseModel,
    text: ModelInput,
    variants: Mapping[str, AblationSwitches],
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
        one = VariantRun(subject, text, switches, metrics, sub_blocks, f"{name}, {text.name}", over)
        found[name] = one.measure_variant_curves(name)
        tick()
    return found


@dataclass(frozen=True)
class VariantRun:
    """One variant of a model on one text."""

    subject: CollapseModel
    text: ModelInput
    switches: AblationSwitches
    metrics: Sequence[str]
    sub_blocks: bool
    where: str
    over: int = 1

    def measure_variant_curves(self, name: str) -> Curves:
        """Curves in exact arithmetic if requested, otherwise plain, with their uncertainty."""
        subject = self.subject
        if not subject.exact:
            return self.run_in_model_arithmetic("")
        if subject.why_plain is None:
            return self.run_in_exact_arithmetic()
        why = subject.why_plain.get(name)
        if why is None:
            try:
                return self.run_in_exact_arithmetic()
            except InputError as error:
                why = remove_advice_from_error_text(error)
        return replace(self, subject=replace(subject, exact=False)).run_in_model_arithmetic(why)

    def run_in_exact_arithmetic(self) -> Curves:
        """Curves with common row and residual separate; run twice where blocks may amplify last
        bits, null where they do."""
        first = self.run_with_common_row_and_residual()
        if not self.can_amplify_rounding():
            return {place: Trajectory(values, [], EXACT) for place, values in first.items()}
        second = self.run_with_common_row_and_residual(LastBitPerturbation())
        return {
            place: build_trajectory(
                values,
                estimate_rounding_errors(values, second[place]),
                EXACT,
                "",
                is_value_exactly_known,
            )
            for place, values in first.items()
        }

    def run_with_common_row_and_residual(self, move: Move | None = None) -> Lines:
        """The numbers of one exact pass; `move`: changes each stream as it enters a block."""
        subject = self.subject
        record = SplitStateRecorder(subject.stacks, self.metrics, self.where, self.over)
        with self.switch_off_model_parts(record):
            run_with_split_tensors(
                subject.body, subject.stacks, self.text.kwargs, record.record_block_state, move
            )
        return record.values

    def can_amplify_rounding(self) -> bool:
        """Whether the stream goes through anything but attention without a skip.

        Attention draws tokens together, and a skip is the identity; but a hundred MLPs without
        skips, each amplifying differences, turn the last bit of a number into the first digit of
        the residual.
        """
        anatomy, switches = self.subject.anatomy, self.switches
        mixers = any(anatomy.has_softmax_free_mixers(stack.name) for stack in self.subject.stacks)
        return (switches.mlp and not switches.mlp_skip) or (mixers and not switches.skip)

    def run_in_model_arithmetic(self, why: str, first: FirstPassRecorder | None = None) -> Curves:
        """Run in the model's arithmetic, twice, with null where the passes agree in too few digits;
        `first`: the first of the two, if it has run already."""
        first = first or self.run_first_pass_in_model_arithmetic()
        second = SecondPassRecorder(first, self.subject.stacks)
        self.run_pass_with_recorder(second, perturb_rounding(self.subject.stacks))
        arithmetic = format_dtype(next(self.subject.body.parameters()).dtype)
        return {
            place: build_trajectory(values, second.uncertain[place], arithmetic, why)
            for place, values in first.values.items()
        }

    def run_first_pass_in_model_arithmetic(
        self, ran: UnchangedForward | None = None
    ) -> FirstPassRecorder:
        """Run in the model's arithmetic, with its states kept in memory; `ran`: such a pass on this text."""
        first = FirstPassRecorder(self.subject.stacks, self.metrics, self.where, self.over)
        if ran is None:
            self.run_pass_with_recorder(first)
        else:
            for (stack, index), state in ran.states.items():
                first.record_state_after_block(stack, index, state)
        return first

    def run_pass_with_recorder(
        self, record: StateRecorder, within: AbstractContextManager[None] | None = None
    ) -> None:
        """Run once in the model's arithmetic, with a recorder."""
        body = self.subject.body
        with (
            fix_random_seed(),
            self.switch_off_model_parts(record),
            observe_block_states(body, self.subject.stacks, record.record_state_after_block),
            within or nullcontext(),
        ):
            body(**self.text.kwargs)

    @contextmanager
    def switch_off_model_parts(self, record: StateRecorder) -> Iterator[None]:
        """The model without the parts that are off, and with the attention that the arithmetic needs."""
        body = self.subject.body
        within = record.record_state_within_block if self.sub_blocks else None
        with (
            torch.no_grad(),
            run_in_model_precision(body),
            select_attention_implementation(self.subject),
            ablate_sub_blocks(body, self.subject.anatomy, self.switches, within),
        ):
            yield


def estimate_rounding_errors(
    values: Mapping[str, list[float]], others: Mapping[str, list[float]]
) -> dict[str, list[float]]:
    """Estimate how far rounding may have moved each number of an exact pass, from a second pass.

    Errors never shrink over blocks, though two numbers may agree by chance.
    """
    return {
        name: list(accumulate(map(rounding_error_or_zero, line, others[name]), max))
        for name, line in values.items()
    }


def rounding_error_or_zero(value: float, other: float) -> float:
    """The difference of two values; 0 where there is no number that might be wrong."""
    return MOVES * absolute_difference_or_inf(value, other) if math.isfinite(value) else 0.0


def build_trajectory(
    values: Mapping[str, list[float]],
    uncertain: Mapping[str, list[float]],
    arithmetic: str,
    why_plain: str,
    holds: Callable[[float, float], bool] = has_significant_digits,
) -> Trajectory:
    """The numbers that rounding has left, and why the others are not known."""
    unknown = {
        name: [
            "" if holds(value, by) else explain_insignificant_value(value, by, arithmetic)
            for value, by in zip(line, uncertain[name], strict=True)
        ]
        for name, line in values.items()
    }
    measured = {
        name: [math.nan if why else value for value, why in zip(line, unknown[name], strict=True)]
        for name, line in values.items()
    }
    return Trajectory(measured, [], arithmetic, why_plain, dict(uncertain), unknown)


def is_value_exactly_known(value: float, uncertainty: float) -> bool:
    """Whether the uncertainty is negligible; in exact arithmetic 0 is never due to rounding, and
    nan is no number."""
    return not math.isfinite(value) or has_significant_digits(value, uncertainty)


def remove_advice_from_error_text(refusal: InputError) -> str:
    """The reason why it is not exact, without the advice for users who required exactness."""
    return str(refusal).removesuffix(".").partition(": leave `exact` out")[0]
