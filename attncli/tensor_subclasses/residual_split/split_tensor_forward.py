"""Run a stack of blocks through its own code with split tensors: common row and residual separate."""

import math
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.attention_function_registry import force_eager_attention
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_errors import FAILURES
from attncli.capture.model_structure.blocks import (
    BlockFollower,
    BlockStack,
    collect_distinct_blocks,
)
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    replace_tensor_argument,
    replace_tensor_in_output,
)
from attncli.errors import (
    BelowResolution,
    InputError,
    NoExactRule,
    is_memory_error,
    shorten_error_text,
)
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import ScaledArray
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.common_row_arithmetic.softmax_attention import RESOLVED_BITS
from attncli.tensor_subclasses.residual_split import (  # noqa: F401  (they enter their rules)
    einsum,
    in_place_functions,
    norm_layers_and_activations,
    split_tensor_arithmetic,
    split_tensor_shape_functions,
    topk_and_routing,
)
from attncli.tensor_subclasses.residual_split.handwritten_norm_layers import (
    replace_handwritten_norm_layers,
)
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    centre_varying_part,
    make_missing_rule_error,
    make_split_tensor_from_states,
)

Observe = Callable[[BlockStack, int, SplitState], None]
"""observe(stack, state 0 … L, X)"""
Move = Callable[[SplitTensor], SplitTensor]
"""Changes a stream as it enters a block."""


class StopAfterLastBlock(Exception):
    """Raised after the last block, to skip the rest of the forward."""


@contextmanager
def accept_split_tensors(model: nn.Module) -> Iterator[None]:
    """Within, the model's own eager attention and its norms accept split tensors; enter it before an ablation.

    An ablation of norms then wraps what is patched here.
    """
    with force_eager_attention(model), replace_handwritten_norm_layers(model):
        yield


def run_with_split_tensors(
    model: nn.Module,
    stacks: tuple[BlockStack, ...],
    inputs: Inputs,
    observe: Observe,
    move: Move | None = None,
) -> None:
    """Run all stacks in one forward pass; a stack that reads another's output gets a split tensor where that output
    has collapsed.

    Where something between them has no rule, or one has lost its residual before others began, those run in passes of
    their own, if they take nothing of it: what is made from a collapsed state in plain numbers is made from rounding.
    """
    passage = SplitTensorRun(stacks, stacks, observe, move)
    why: NoExactRule | None = None
    try:
        run_forward_to_last_layer_stack(model, inputs, passage)
    except NoExactRule as error:
        why = error
        if len(stacks) == 1:
            raise
    for stack in [each for each in stacks if why or each not in passage.begun_stacks]:
        try:
            run_forward_to_last_layer_stack(
                model, inputs, SplitTensorRun((stack,), stacks, observe, move)
            )
        except OtherStackDependency:
            if why:
                raise why from None


class OtherStackDependency(Exception):
    """Raised when a stack receives what another made."""


def run_forward_to_last_layer_stack(
    model: nn.Module, inputs: Inputs, passage: "SplitTensorRun"
) -> None:
    """Run to the end of the last stack, or until a stack has lost its residual, which is no error."""
    try:
        with (
            torch.no_grad(),
            wrap_forwards(collect_distinct_blocks(passage.stacks), passage.wrap_forward),
        ):
            model(**inputs)
    except (StopAfterLastBlock, BelowResolution):
        return
    except FAILURES as error:
        if is_memory_error(error):
            raise
        why = f"code that fails on it with {type(error).__name__}, {shorten_error_text(error)},"
        raise make_missing_rule_error(why, find_model_code_line_of_error(error)) from error
    raise InputError(f"stack {passage.requested_stacks[-1].name} was not run to its end.")


def find_model_code_line_of_error(error: Exception) -> str:
    """Find the last line of a library's model code in an error's traceback."""
    places = [
        f"{frame.filename.rpartition('/')[2]} line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "transformers" in frame.filename
    ]
    return places[-1] if places else "no line of transformers"


class SplitTensorRun:
    """Makes the stream a split tensor, from the first block's input of each requested stack to the last one's output."""

    def __init__(
        self,
        requested_stacks: tuple[BlockStack, ...],
        stacks: tuple[BlockStack, ...],
        observe: Observe,
        move: Move | None = None,
    ) -> None:
        self.requested_stacks = requested_stacks
        self.stacks = stacks
        self.following = BlockFollower(stacks)
        self.observe = observe
        self.move = move
        self.begun_stacks: set[BlockStack] = set()
        self.ended: set[BlockStack] = set()

    def wrap_forward(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        stack, call = self.following.locate_block_call(module)
        if stack not in self.requested_stacks:
            return mark_block_output_unknown(forward(*args, **kwargs))
        if call.layer == 0:
            args, kwargs = self.split_input_of_layer_stack(stack, args, kwargs)
        if self.depends_on_skipped_layer_stack(args, kwargs):
            raise OtherStackDependency
        if self.move is not None:
            stream = find_residual_stream_input(args, kwargs)
            assert isinstance(stream, SplitTensor)
            args, kwargs = replace_tensor_argument(args, kwargs, stream, self.move(stream))
        output = forward(*args, **kwargs)
        state = find_residual_stream_output(output)
        if not isinstance(state, SplitTensor):
            raise make_missing_rule_error(f"what {type(module).__name__} does to lose the tokens")
        self.observe(stack, call.layer + 1, state.to_split_state())
        return (
            self.take_output_of_layer_stack(stack, output, state)
            if call is stack.calls[-1]
            else output
        )

    def split_input_of_layer_stack(
        self, stack: BlockStack, args: Args, kwargs: Kwargs
    ) -> tuple[Any, Any]:
        """The input of a stack's first block, its stream as a split tensor; known even where other arguments are not."""
        stream = find_residual_stream_input(args, kwargs)
        assert stream is not None  # the probe recorded which
        if self.depends_on_skipped_layer_stack((stream,), {}):
            raise OtherStackDependency
        self.begun_stacks.add(stack)
        first = stream if isinstance(stream, SplitTensor) else split_first_block_input(stream)
        self.observe(stack, 0, first.to_split_state())
        return replace_tensor_argument(args, kwargs, stream, first)

    def depends_on_skipped_layer_stack(self, args: Args, kwargs: Kwargs) -> bool:
        """Whether an argument depends on a stack that does not run in this pass."""
        partial = len(self.requested_stacks) < len(self.stacks)
        return partial and any(map(is_tensor_marked_unknown, iter_nested_tensors((args, kwargs))))

    def take_output_of_layer_stack(
        self, stack: BlockStack, output: Output, state: SplitTensor
    ) -> Output:
        """Take the output of a stack's last block; the last stack ends the forward pass."""
        self.ended.add(stack)
        if len(self.ended) == len(self.requested_stacks):
            raise StopAfterLastBlock
        resolved = state.varying.exponent >= state.common.exponent - RESOLVED_BITS
        return (
            replace_tensor_in_output(output, state, state.to_plain_tensor()) if resolved else output
        )


def mark_block_output_unknown(output: Output) -> Output:
    """A block's output with NaN for its state, which marks all that depends on it."""
    state = find_residual_stream_output(output)
    return (
        output
        if state is None
        else replace_tensor_in_output(output, state, state.new_full((), math.nan).expand_as(state))
    )


def is_tensor_marked_unknown(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_floating_point()
        and not isinstance(tensor, SplitTensor)
        and bool(tensor.isnan().any())
    )


def split_first_block_input(stream: torch.Tensor) -> SplitTensor:
    """The first block's input: one text's [1, token, feature], [token, 1, feature] or [token, feature]."""
    shape = tuple(stream.shape)
    if stream.device.type == "cpu":
        if stream.dim() == 3 and shape[0] == 1:
            return make_split_tensor_from_states(stream, axis=1)
        if stream.dim() == 2 or (stream.dim() == 3 and shape[1] == 1):
            return make_split_tensor_from_states(stream, axis=0)
    raise make_missing_rule_error(
        f"states of shape {shape} on {stream.device} instead of one text's on the CPU"
    )


class LastBitPerturbation:
    """Moves the last bits of each stream as it enters a block, for a second sample of the rounding.

    A separate common row keeps all digits of a residual however small, but each step rounds their last bits. Where blocks
    amplify small differences, as deep stacks of MLPs without skips can, those bits become the first digits of the result:
    two runs that differ in them alone show which digits are known.
    """

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def __call__(self, stream: SplitTensor) -> SplitTensor:
        common, varying = map(self.perturb_last_bits, (stream.common, stream.varying))
        return centre_varying_part(common, varying, stream.axis)

    def perturb_last_bits(self, numbers: ScaledArray) -> ScaledArray:
        """Leave each number, or move it one step nearer to 0."""
        half = np.finfo(np.float64).eps / 2
        return numbers * (1 - half * self.generator.integers(0, 2, numbers.mantissa.shape))
