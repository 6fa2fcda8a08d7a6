"""Forwards that verify what is between blocks: nothing, or what depends on the last block's output alone.

Tags that show no other input are not enough: here the numbers themselves are changed. Where blocks follow each other
directly, each must take the very output of the one before. Where something is between, every block's output is replaced
by noise, then some of these by other noise: a block's input must not change as long as the output right before it stays.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from attncli.ablation.block_structure_checks import describe_block
from attncli.ablation.norm_layers import refuse_unrecognised_norm_layers
from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import (
    BlockCall,
    BlockFollower,
    BlockStack,
    collect_distinct_blocks,
    observe_block_states,
)
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    replace_tensor_in_output,
    select_nth_nested_tensor,
)
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output

Replace = Callable[[int, torch.Tensor], torch.Tensor]
"""replace(order of the call, its output): the output with which the model continues."""
BlockInputs = dict[BlockCall, list[torch.Tensor]]
"""Inputs of every block: its stream, then other arguments that depend on the state before."""


class UnchangedForward(NamedTuple):
    """What one unchanged forward of the model shows of every block."""

    block_inputs: BlockInputs
    outputs: Mapping[int, torch.Tensor]
    """Outputs by the order of the calls."""
    states: Mapping[tuple[str, int], torch.Tensor]
    """Every state as [batch, token, feature], by its stack."""
    result: object
    """What the model returned."""


def run_unchanged_forward(
    model: nn.Module, inputs: Inputs, stacks: tuple[BlockStack, ...]
) -> UnchangedForward:
    """Run one forward for all checks that compare with the unchanged model."""
    outputs: dict[int, torch.Tensor] = {}
    states: dict[tuple[str, int], torch.Tensor] = {}

    def record_hidden_state(stack: str, state: int, hidden: torch.Tensor) -> None:
        states[stack, state] = hidden.clone()

    def save_block_output(order: int, output: torch.Tensor) -> torch.Tensor:
        outputs[order] = output.clone()
        return output

    with (
        observe_block_states(model, stacks, record_hidden_state),  # refuses outputs without tokens
        refuse_unrecognised_norm_layers(model, stacks),
    ):
        taken, result = run_with_replaced_block_outputs(model, inputs, stacks, save_block_output)
        return UnchangedForward(taken, outputs, states, result)


def check_only_states_between_blocks(
    model: nn.Module, inputs: Inputs, stacks: tuple[BlockStack, ...], plain: UnchangedForward
) -> None:
    """Refuse a model in which more than the returned state passes from block to block."""
    for stack in stacks:
        for before, after in pairwise(stack.calls):
            if after.joined and not torch.equal(
                plain.block_inputs[after][0], plain.outputs[before.order]
            ):
                refuse_state_between_blocks(stack.name, after)
        if any(not call.joined or call.extra_arguments for call in stack.calls[1:]):
            check_inputs_of_block_stack(model, inputs, stacks, stack)


def check_inputs_of_block_stack(
    model: nn.Module, inputs: Inputs, stacks: tuple[BlockStack, ...], stack: BlockStack
) -> None:
    """Check that a block's inputs depend on the output right before, and on nothing else that changes with the text.

    Which outputs change together is set by the digits of their layers: any two differ in one, so that in one of the runs the
    one output changes while the other stays.
    """
    layers = {call.order: call.layer for call in stack.calls}
    first = NoiseOutputs(set())
    always, _ = run_with_replaced_block_outputs(
        model, inputs, stacks, first.replace_block_output_by_noise
    )
    for digit in range((len(layers) - 1).bit_length()):
        for changes in (0, 1):
            other = {order for order, layer in layers.items() if layer >> digit & 1 == changes}
            found, _ = run_with_replaced_block_outputs(
                model, inputs, stacks, NoiseOutputs(other).replace_block_output_by_noise
            )
            check_equal_block_inputs(stack, set(layers) - other, always, found)
    shifted, _ = run_with_replaced_block_outputs(
        model, roll_token_positions(inputs), stacks, first.replace_block_output_by_noise
    )
    check_equal_block_inputs(stack, set(layers), always, shifted)


class NoiseOutputs:
    """Replaces outputs by noise, and some of them by other noise."""

    def __init__(self, changed: set[int]) -> None:
        self.changed = changed

    def replace_block_output_by_noise(self, order: int, output: torch.Tensor) -> torch.Tensor:
        """Noise for one output, always the same numbers whatever else is drawn."""
        generator = torch.Generator().manual_seed(2 * order + (order in self.changed))
        drawn = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        return drawn.to(output)


def check_equal_block_inputs(
    stack: BlockStack, stayed: set[int], one: BlockInputs, other: BlockInputs
) -> None:
    """Check that a block gets the same input in two runs where the output before it is the same."""
    for before, after in pairwise(stack.calls):
        if before.order in stayed and not (
            len(one[after]) == len(other[after])
            and all(x.isfinite().all() for x in one[after][:1])
            and all(map(torch.equal, one[after], other[after]))
        ):
            refuse_state_between_blocks(stack.name, after)


def refuse_changed_second_stream(
    stack: BlockStack, call: BlockCall, second: torch.Tensor, before: torch.Tensor | None
) -> None:
    """Refuse a second stream that is not the one that the block before returned."""
    if before is None or not torch.equal(second, before):
        refuse_state_between_blocks(stack.name, call)


def refuse_state_between_blocks(stack: str, call: BlockCall) -> NoReturn:
    raise InputError(
        f"{describe_block(stack, call)} is given more than the output of the block before it makes: "
        "what happens between them is not understood."
    )


def roll_token_positions(inputs: Inputs) -> dict[str, Tensor]:
    """Shift the inputs: the same shapes and numbers, in other positions."""
    return {
        name: value.roll(1, -1) if isinstance(value, torch.Tensor) and value.ndim else value
        for name, value in inputs.items()
    }


def run_with_replaced_block_outputs(
    model: nn.Module, inputs: Inputs, stacks: tuple[BlockStack, ...], replace: Replace
) -> tuple[BlockInputs, object]:
    """Run one forward in which every block's output is replaced; return the blocks' inputs, and what the model returns."""
    following = BlockFollower(stacks)
    found: BlockInputs = {}
    seconds: dict[str, torch.Tensor | None] = {}

    def run_wrapped_block(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        stack, call = following.locate_block_call(module)
        stream = find_residual_stream_input(args, kwargs)
        if stream is None:
            raise InputError(f"{describe_block(stack.name, call)} is given no stream of tokens.")
        tensors = list(iter_nested_tensors((args, kwargs)))
        found[call] = [stream.clone(), *(tensors[place].clone() for place in call.extra_arguments)]
        if call.second and call.layer:
            refuse_changed_second_stream(stack, call, tensors[call.second[0]], seconds[stack.name])
        output = forward(*args, **kwargs)
        if call.second:
            second = select_nth_nested_tensor(call.second[1], output)
            seconds[stack.name] = None if second is None else second.clone()
        left = find_residual_stream_output(output)
        if left is None:
            raise InputError(f"{describe_block(stack.name, call)} returns no stream of tokens.")
        return replace_tensor_in_output(output, left, replace(call.order, left))

    with (
        fix_random_seed(),
        torch.no_grad(),
        wrap_forwards(collect_distinct_blocks(stacks), run_wrapped_block),
    ):
        return found, model(**inputs)
