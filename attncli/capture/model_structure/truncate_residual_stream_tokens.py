"""Truncate residual streams to their first tokens where a stack takes them in: short inputs for models of fixed image size.

Verification compares passes that are truncated alike. Blocks that depend on the number of tokens (windows, one bias per
pair) fail on fewer, or take another path; such a model is not truncated. Every later run checks that its blocks take the
path that was seen here.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.model_structure.blocks import BlockStack, find_block_stacks
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    replace_tensor_argument,
)
from attncli.forward_argument_types import Args, Inputs, Kwargs, Output

LONGER = 4
"""Streams with this many times the tokens are worth truncating."""


@dataclass(frozen=True)
class StreamTruncation:
    """The blocks whose streams are truncated, and to how many tokens."""

    blocks: tuple[nn.Module, ...] = ()
    tokens: int = 0

    def truncate_residual_streams(self) -> AbstractContextManager[None]:
        """Within, the first blocks receive their first tokens alone; observers entered later see the truncated stream."""
        cut = partial(truncate_tokens_of_arguments, self.tokens)
        return hook_forwards(((block, cut) for block in self.blocks), with_kwargs=True, first=True)


def truncate_tokens_of_arguments(tokens: int, _: nn.Module, args: Args, kwargs: Kwargs) -> Output:
    """Truncate a block's arguments to fewer tokens."""
    stream = find_residual_stream_input(args, kwargs)
    if stream is None or stream.shape[1] <= tokens:
        return None
    return replace_tensor_argument(args, kwargs, stream, stream[:, :tokens])


def find_residual_stream_truncation(
    model: nn.Module,
    inputs: Inputs,
    tokens: int,
    try_it: Callable[[nn.Module, Mapping[str, Any]], bool],
) -> StreamTruncation:
    """Find where the streams of this input can be truncated; None if the model then fails or shows other blocks."""
    seen: dict[nn.Module, tuple[int, ...]] = {}

    def record_residual_stream_shape(module: nn.Module, args: Args, kwargs: Kwargs) -> None:
        stream = find_residual_stream_input(args, kwargs)
        seen.setdefault(module, () if stream is None else tuple(stream.shape))

    with hook_forwards(
        ((module, record_residual_stream_shape) for module in model.modules()), with_kwargs=True
    ):
        stacks = find_block_stacks(model, inputs)
    first = dict.fromkeys(stack.calls[0].module for stack in stacks)
    long = (block for block in first if is_shape_of_one_longer_sequence(seen[block], tokens))
    cut = StreamTruncation(tuple(long), tokens)
    if not cut.blocks:
        return cut
    with cut.truncate_residual_streams():
        same = try_it(model, inputs) and list_block_calls_by_stack(
            find_block_stacks(model, inputs)
        ) == list_block_calls_by_stack(stacks)
    return cut if same else StreamTruncation()


def is_shape_of_one_longer_sequence(shape: tuple[int, ...], tokens: int) -> bool:
    """Whether a tensor is one item's [1, token, feature] with more tokens than these."""
    return len(shape) == 3 and shape[0] == 1 and shape[1] > LONGER * tokens


def list_block_calls_by_stack(stacks: tuple[BlockStack, ...]) -> list[object]:
    """What must stay the same under truncation: the stacks and the attention outside them."""
    return [(stack.name, [vars(call) for call in stack.calls]) for stack in stacks]
