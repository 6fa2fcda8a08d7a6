"""Variants of a loaded model over texts: every block's state is measured as it passes, and none is kept."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.checkpoints.ablation import Anatomy, switched
from attncli.checkpoints.ablation.float64 import in_float64
from attncli.checkpoints.ablation.run import BlockRun
from attncli.checkpoints.exact.run import exact_code, run_exactly
from attncli.checkpoints.exact.tensor import SplitTensor
from attncli.checkpoints.inputs.texts import ModelInput
from attncli.checkpoints.streaming.capture import eager_everywhere
from attncli.checkpoints.structure.blocks import Stack, watching_states
from attncli.checkpoints.structure.token_layout import as_tokens
from attncli.errors import InputError
from attncli.maths.split import Split
from attncli.metrics import METRICS, Metric
from attncli.networks.variants import Switches
from attncli.studies.trajectories import Trajectory


class Place(NamedTuple):
    """Where in the model states are measured."""

    stack: str
    after: str = ""
    """After a sub-block of every block, such as its attention; empty: after whole blocks."""


Curves = Mapping[Place, Trajectory]


@dataclass(frozen=True)
class Subject:
    """A model that is about to be run, with what is known of its blocks."""

    body: nn.Module
    anatomy: Anatomy
    exact: bool
    eager_alone: bool = False
    """Whether only the model's eager attention is to be trusted."""

    @property
    def stacks(self) -> tuple[Stack, ...]:
        return self.anatomy.stacks


class Recorder:
    """Measures states as they come; what never came is nan, as rounding has swallowed it."""

    def __init__(self, stacks: Sequence[Stack], metrics: Sequence[str], where: str) -> None:
        self.metrics: dict[str, Metric] = {name: METRICS[name] for name in metrics}
        self.where = where
        self.lengths = {stack.name: len(stack.calls) + 1 for stack in stacks}
        self.values: dict[Place, dict[str, list[float]]] = {}
        for stack in stacks:
            self.place(Place(stack.name))

    def place(self, place: Place) -> dict[str, list[float]]:
        """The curves of a place, begun when it is first seen."""
        nothing = [math.nan] * self.lengths[place.stack]
        return self.values.setdefault(place, {name: [*nothing] for name in self.metrics})

    def after_block(self, stack: str, index: int, state: Tensor) -> None:
        self.plain(Place(stack), index, state)

    def within(self, run: BlockRun, after: str, stream: Tensor) -> None:
        """The stream between two sub-blocks."""
        place, index = Place(run.stack, after), run.call.layer + 1
        if isinstance(stream, SplitTensor):
            self.split(place, index, stream.state())
        else:
            self.plain(place, index, as_tokens(stream, 1, run.call.module))

    def plain(self, place: Place, index: int, state: Tensor) -> None:
        """A state [batch of one, token, feature] of the model itself."""
        array = state[0].detach().to("cpu", torch.float64)
        if not bool(torch.isfinite(array).all()):
            token = int((~torch.isfinite(array)).any(dim=1).nonzero()[0])
            raise InputError(
                f"{self.where}: the state after layer {index} of {place.stack} is not finite at token {token}."
            )
        self.split(place, index, Split.of(array.numpy()))

    def split(self, place: Place, index: int, state: Split) -> None:
        for name, measure in self.metrics.items():
            self.place(place)[name][index] = measure(state)

    def curves(self) -> dict[Place, Trajectory]:
        return {place: Trajectory(values, []) for place, values in self.values.items()}


def attention_code(subject: Subject) -> AbstractContextManager[None]:
    """Which code computes the attention: that of split tensors, the eager one, or what the model is set to."""
    if subject.exact:
        return exact_code(subject.body)
    return eager_everywhere(subject.body) if subject.eager_alone else nullcontext()


def own_precision(body: nn.Module) -> AbstractContextManager[None]:
    """A float64 model stays in float64, whatever its code casts to."""
    return in_float64() if next(body.parameters()).dtype == torch.float64 else nullcontext()


def run_text(
    subject: Subject,
    text: ModelInput,
    variants: Mapping[str, Switches],
    metrics: Sequence[str],
    tick: Callable[[], None],
    sub_blocks: bool = False,
) -> dict[str, Curves]:
    """All variants of the model on one text; with `sub_blocks` also the states inside the blocks."""
    found: dict[str, Curves] = {}
    for name, switches in variants.items():
        record = Recorder(subject.stacks, metrics, f"{name}, {text.name}")
        with (
            torch.no_grad(),
            own_precision(subject.body),
            attention_code(subject),
            switched(
                subject.body, subject.anatomy, switches, record.within if sub_blocks else None
            ),
        ):
            if subject.exact:
                for stack in subject.stacks:
                    observe = partial(record.split, Place(stack.name))
                    run_exactly(subject.body, stack, text.kwargs, observe, subject.stacks)
            else:
                with watching_states(subject.body, subject.stacks, record.after_block):
                    subject.body(**text.kwargs)
        found[name] = record.curves()
        tick()
    return found
