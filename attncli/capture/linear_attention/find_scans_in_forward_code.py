"""Steps inside a mixer's own forward: a scan that is written there, between two tensors that its code names.

A step is a place in the forward's code where one torch function makes one tensor, once in every run. The mixer is run
again with another tensor at one step, and the tensor at a later step is its output: a call like any other, whose
linearity is tested and whose map is compared with what the model had there.
"""

import inspect
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.linear_attention.calls_inside_mixers import KernelCall
from attncli.capture.linear_attention.linear_attention_maps import does_output_combine_tokens
from attncli.capture.linear_attention.linearity_tests import (
    ValueArgument,
    find_value_tensor_argument,
)
from attncli.capture.softmax_attention.attention_interface import promote_half_to_float32
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output

ASSIGNED = re.compile(r"\s*(\w+)\s*=[^=]")


@dataclass(frozen=True)
class MixerCodeStep:
    """The part of a forward from one tensor to a later one."""

    value_place: int
    """Where in the code the values are made."""
    output_place: int
    """Where in the code the output is made."""
    value: str
    output: str
    """The names of both in the code."""

    @property
    def name(self) -> str:
        return f"forward: {self.output}"


@dataclass
class RecordedSteps:
    """One recorded run of a mixer."""

    forward: Function
    args: Args
    kwargs: Kwargs
    code: CodeType
    results_by_place: dict[int, list[Any]] = field(default_factory=dict)
    """Results at each place of the code."""

    def list_tensors_computed_once(self) -> list[tuple[int, Tensor]]:
        """The floating tensors from places with exactly one result, in order."""
        alone = [
            (place, found[0]) for place, found in self.results_by_place.items() if len(found) == 1
        ]
        return [
            (place, found)
            for place, found in alone
            if isinstance(found, Tensor) and found.is_floating_point()
        ]

    def build_call_replaying_forward_steps(self, step: MixerCodeStep) -> KernelCall | None:
        """The call from one step to the other; None where either has several results, or none."""
        made = dict(self.list_tensors_computed_once())
        if step.value_place not in made or step.output_place not in made:
            return None

        def replay_forward_with_other_values(**value: Tensor) -> Tensor:
            (instead,) = value.values()
            with StepReplayer(self.code, step, instead):
                try:
                    self.forward(*self.args, **self.kwargs)
                except StopForward as told:
                    return told.value
            raise RuntimeError("the forward did not come to the same step again")

        return KernelCall(
            step.name, 0, replay_forward_with_other_values, (), {step.value: made[step.value_place]}
        )


class StopForward(Exception):
    """Raised once the output step has its tensor."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = value


class CodeTracer(TorchFunctionMode):
    """Finds the place in a function's code from which a torch function is called."""

    def __init__(self, code: CodeType) -> None:
        super().__init__()
        self.code = code

    def find_calling_bytecode_instruction(self) -> int | None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code is self.code:
                return frame.f_lasti
            frame = frame.f_back
        return None


class StepRecorder(CodeTracer):
    """Records the results at all places, or at some of them."""

    def __init__(self, seen: RecordedSteps, places: Sequence[int] | None = None) -> None:
        super().__init__(seen.code)
        self.run, self.places = seen, places

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        found = func(*args, **(kwargs or {}))
        place = self.find_calling_bytecode_instruction()
        if place is not None and (self.places is None or place in self.places):
            self.run.results_by_place.setdefault(place, []).append(found)
        return found


class StepReplayer(CodeTracer):
    """Replaces the result of one step, and stops at the other."""

    def __init__(self, code: CodeType, step: MixerCodeStep, instead: Tensor) -> None:
        super().__init__(code)
        self.step, self.instead = step, instead

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        found = func(*args, **(kwargs or {}))
        place = self.find_calling_bytecode_instruction()
        if place == self.step.value_place:
            return self.instead.to(found.dtype) if found.dtype.itemsize < 4 else self.instead
        if place == self.step.output_place:
            raise StopForward(promote_half_to_float32(found))
        return found


def find_forward_code(mixer: nn.Module) -> CodeType:
    code: CodeType = inspect.unwrap(type(mixer).forward).__code__
    return code


def record_mixer_forwards(
    model: nn.Module, mixers: Sequence[nn.Module], inputs: Inputs
) -> dict[nn.Module, RecordedSteps]:
    """Run each of these mixers once, recorded."""
    runs: dict[nn.Module, RecordedSteps] = {}

    def record_forward_steps(
        forward: Function, mixer: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        seen = runs[mixer] = RecordedSteps(forward, args, kwargs, find_forward_code(mixer))
        with StepRecorder(seen):
            return forward(*args, **kwargs)

    with torch.no_grad(), wrap_forwards(mixers, record_forward_steps):
        model(**inputs)
    return runs


def find_linear_step_of_forward(
    seen: RecordedSteps, tokens: int
) -> tuple[MixerCodeStep, ValueArgument] | None:
    """Find the last tensor of a forward that is linear in an earlier one which affects other tokens, and that one."""
    made = seen.list_tensors_computed_once()
    for number in reversed(range(len(made))):
        known_ids, output = made[number]
        for taken, value in made[:number]:
            if value.shape != output.shape or not has_shape_of_value_tensor(value, tokens):
                continue
            step = MixerCodeStep(
                taken,
                known_ids,
                name_variable_at_instruction(seen.code, taken),
                name_variable_at_instruction(seen.code, known_ids),
            )
            call = seen.build_call_replaying_forward_steps(step)
            values = None if call is None else find_value_tensor_argument(call, tokens)
            if (
                call is not None
                and values is not None
                and does_call_reproduce_output(call, values, output)
            ):
                return step, values
    return None


def has_shape_of_value_tensor(value: Tensor, tokens: int) -> bool:
    return value.ndim in (3, 4) and value.shape[0] == 1 and tokens in value.shape[1:]


def does_call_reproduce_output(call: KernelCall, values: ValueArgument, output: Tensor) -> bool:
    """Whether a run from the same values gives the model's output, and has a map that combines values."""
    again = call.compute_output_with_new_argument(
        values.key, call.select_floating_arguments()[values.key]
    )
    if not torch.equal(again, promote_half_to_float32(output)):
        return False
    try:
        return does_output_combine_tokens(call, values)
    except RuntimeError:  # a function without a derivative
        return False


def name_variable_at_instruction(code: CodeType, place: int) -> str:
    """The variable's name in the code at that place; else the line."""
    line = next(row for at, row in iter_source_lines_of_instructions(code) if at == place)
    text = linecache.getline(code.co_filename, line)
    assigned = ASSIGNED.match(text)
    return assigned[1] if assigned else f"line_{line}"


def iter_source_lines_of_instructions(code: CodeType) -> Iterator[tuple[int, int]]:
    for first, last, line in code.co_lines():
        if line is not None:
            yield from ((place, line) for place in range(first, last))
