"""Shortcuts that make long maps of a call affordable, each verified by a test: states, batches of columns, fewer channels.

state     a recurrence continues from a given state, so that a strip of rows costs no more than its rows
columns   a batch of other values runs at once, each giving another column of the map
channels  those that are not measured are left out of all arguments
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.linear_attention.calls_inside_mixers import KernelCall, Key
from attncli.capture.linear_attention.linearity_tests import (
    RandomArgument,
    ValueArgument,
    are_outputs_close,
)
from attncli.forward_argument_types import Output

STATES = {"initial_state": "output_final_state", "initial_states": "return_final_states"}
"""Kernels' argument names for an initial state, and for returning the final one."""


@dataclass(frozen=True)
class RecurrentState:
    """How a call continues from a state."""

    state_argument: str
    returns_state_argument: str
    width: int
    """The axis of the state for the features of the values."""
    tokens: Mapping[Key, int]
    """The axis of tokens of each argument that has one."""

    def select_tokens_of_call_arguments(
        self, call: KernelCall, first: int, last: int
    ) -> KernelCall:
        """The call on some tokens alone."""

        def narrow_token_axis(key: Key, value: Output) -> Any:
            axis = self.tokens.get(key)
            return value if axis is None else value.narrow(axis, first, last - first)

        return call.copy_call_with_changed_arguments(narrow_token_axis)

    def run_from_recurrent_state(
        self, call: KernelCall, key: Key, values: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Run the call; return its output and final state."""
        kwargs = {**call.kwargs, self.state_argument: state, self.returns_state_argument: True}
        with_state = replace(call, kwargs=kwargs)
        output, left = list(
            iter_nested_tensors(with_state.run_call_with_new_argument(key, values))
        )[:2]
        return output, left


@dataclass(frozen=True)
class FasterMapMethods:
    """The shortcuts of one call."""

    state: RecurrentState | None = None
    batched: bool = False
    channels: Mapping[Key, int] | None = None
    """The axis of channels of each argument that has one; None where they cannot be left out."""


def find_faster_map_methods(call: KernelCall, values: ValueArgument) -> FasterMapMethods:
    """Find the shortcuts of a call on a short text; one that fails is left out."""
    call = call.copy_detached_in_float32()
    found = FasterMapMethods()
    with torch.no_grad():
        for attempt in (
            try_map_from_recurrent_state,
            try_map_columns_in_batches,
            try_computing_channels_separately,
        ):
            try:
                found = attempt(found, call, values)
            except Exception:
                continue
    return found


def try_map_from_recurrent_state(
    methods: FasterMapMethods, call: KernelCall, values: ValueArgument
) -> FasterMapMethods:
    """Test whether two parts in sequence equal the whole, with more features in the second."""
    if values.shared_axis is None or not values.wide or not values.causal:
        return methods
    named = inspect.signature(inspect.unwrap(call.function)).parameters
    with_state = next((name for name in STATES if name in named and STATES[name] in named), None)
    if with_state is None or call.kwargs.get(with_state) is not None:
        return methods
    value = call.select_floating_arguments()[values.key]
    tokens = find_argument_axes_of_size(call, value.shape[values.token])
    whole = call.compute_output_with_new_argument(values.key, value)
    size = value.shape[values.token]
    half = size // 2
    carried = RecurrentState(with_state, STATES[with_state], 0, tokens)
    first, wider = (
        carried.run_from_recurrent_state(
            carried.select_tokens_of_call_arguments(call, 0, half),
            values.key,
            each.narrow(values.token, 0, half),
            None,
        )
        for each in (value, torch.cat([value, value], values.shared_axis))
    )
    (axis,) = (
        axis
        for axis, (a, b) in enumerate(zip(first[1].shape, wider[1].shape, strict=True))
        if a != b
    )
    carried = replace(carried, width=axis)
    rest = value.narrow(values.token, half, size - half)
    second, _ = carried.run_from_recurrent_state(
        carried.select_tokens_of_call_arguments(call, half, size), values.key, rest, first[1]
    )
    together = torch.cat([first[0], second], values.token)
    return replace(methods, state=carried) if are_outputs_close(together, whole) else methods


def find_argument_axes_of_size(call: KernelCall, size: int, after: int = 1) -> dict[Key, int]:
    """The first axis of that size in each argument."""
    return {
        key: after + list(value.shape[after:]).index(size)
        for key, value in call.select_floating_arguments().items()
        if size in value.shape[after:]
    }


def try_map_columns_in_batches(
    methods: FasterMapMethods, call: KernelCall, values: ValueArgument
) -> FasterMapMethods:
    draw = RandomArgument(call.select_floating_arguments()[values.key])
    parts = [draw(), draw()]
    found = repeat_kernel_call_along_batch(call, 2).compute_output_with_new_argument(
        values.key, torch.cat(parts)
    )
    expected = torch.cat(
        [call.compute_output_with_new_argument(values.key, part) for part in parts]
    )
    return replace(
        methods, batched=found.shape == expected.shape and are_outputs_close(found, expected)
    )


def repeat_kernel_call_along_batch(call: KernelCall, size: int) -> KernelCall:
    """Repeat the call along the batch, the same for all arguments but its values."""

    def expand_batch_axis(tensor: Tensor) -> Tensor:
        alone = tensor.ndim > 2 and tensor.shape[0] == 1
        return tensor.expand(size, *tensor.shape[1:]) if alone else tensor

    return call.copy_call_with_changed_floats(expand_batch_axis)


def try_computing_channels_separately(
    methods: FasterMapMethods, call: KernelCall, values: ValueArgument
) -> FasterMapMethods:
    """Test whether every second channel alone gives the same as among all."""
    value = call.select_floating_arguments()[values.key]
    if values.shared_axis is not None or value.ndim != 3:
        return methods
    axis = 3 - values.token
    found = find_argument_axes_of_size(call, value.shape[axis], after=0)
    chosen = range(0, value.shape[axis], 2)
    few = select_channels_in_call_arguments(call, found, chosen)
    alone = few.compute_output_with_new_argument(
        values.key, few.select_floating_arguments()[values.key]
    )
    expected = call.compute_output_with_new_argument(values.key, value).index_select(
        axis, torch.tensor(chosen)
    )
    works = alone.shape == expected.shape and are_outputs_close(alone, expected)
    return replace(methods, channels=found if works else None)


def select_channels_in_call_arguments(
    call: KernelCall, axes: Mapping[Key, int], chosen: Sequence[int]
) -> KernelCall:
    """Remove the channels from the call that are not chosen."""

    def select_channels_of_argument(key: Key, value: Output) -> Any:
        axis = axes.get(key)
        if axis is None:
            return value
        return value.index_select(axis, torch.tensor(chosen, device=value.device))

    return call.copy_call_with_changed_arguments(select_channels_of_argument)
