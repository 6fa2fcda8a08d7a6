"""The residual stream in a block's arguments and results: found, replaced, and laid out as [batch, token, feature].

It is the first tensor of each. A two-stream block (XLNet's, with a query stream and a content stream) takes and returns a second one right after.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import torch
from torch import nn

from attncli.capture.attention_calls import iter_nested_tensors
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Kwargs, Output


def find_residual_stream_input(args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """The tensor argument that is the block's residual stream: the first floating one, `hidden_states` first among the keywords."""
    values = (*args, kwargs.get("hidden_states"), *kwargs.values())
    return next((value for value in values if could_be_residual_stream(value)), None)


def replace_tensor_argument(
    args: Args, kwargs: Kwargs, old: torch.Tensor, new: torch.Tensor
) -> tuple[Args, Kwargs]:
    """Replace a tensor in the arguments wherever it occurs: some blocks take their stream as query, key and value."""
    return (
        tuple(new if value is old else value for value in args),
        {name: new if value is old else value for name, value in kwargs.items()},
    )


def find_residual_stream_output(output: Output) -> torch.Tensor | None:
    """The tensor that a block returns as its residual stream: its whole output, or the first tensor of it."""
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, list | tuple):
        return next((value for value in output if could_be_residual_stream(value)), None)
    return output if could_be_residual_stream(output) else None


def replace_tensor_in_output(output: Output, old: torch.Tensor, new: torch.Tensor) -> Output:
    """Replace one tensor in a block's output."""
    if isinstance(output, Mapping):
        changed = {
            name: replace_tensor_in_output(value, old, new) for name, value in output.items()
        }
        return type(output)(**changed)
    if type(output) in (list, tuple):
        return type(output)(replace_tensor_in_output(value, old, new) for value in output)
    return new if output is old else output


def find_second_residual_stream_tensor(values: object) -> torch.Tensor | None:
    """The possible second stream among a block's arguments or results: the tensor after the first, if as wide."""
    if (
        not isinstance(values, tuple)
        or len(values) < 2
        or not all(map(could_be_residual_stream, values[:2]))
    ):
        return None
    first, second = values[:2]
    alike = first.ndim == second.ndim and first.shape[-1] == second.shape[-1]
    return second if alike else None


def select_nth_nested_tensor(place: int, values: object) -> torch.Tensor | None:
    """The tensor at a position among all that a block takes or returns."""
    return next(islice(iter_nested_tensors(values), place, None), None)


def could_be_residual_stream(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim >= 2


def read_batch_size(inputs: Any) -> int:
    """The number of texts, images or sounds in one forward."""
    return next((int(tensor.shape[0]) for tensor in iter_nested_tensors(inputs) if tensor.ndim), 1)


def is_feature_map_channels_first(block: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether a four-dimensional map has its features in axis 1, by the width of the block's first weight."""
    widths = {size for weight in block.parameters() for size in weight.shape if weight.ndim == 1}
    first, last = shape[1] in widths, shape[3] in widths
    if first == last:
        raise InputError(
            f"a hidden state of shape {shape} has its features in axis 1 or 3, and the weights of "
            f"{type(block).__name__} do not say in which: this layout is not understood."
        )
    return first


def reshape_to_batch_token_feature(
    state: torch.Tensor, batch: int, block: nn.Module
) -> torch.Tensor:
    """[batch, token, feature] of a block's stream.

    What is folded into the batch axis (windows, frames) and what spans several axes (maps) becomes tokens; a stream
    with tokens first (XLNet, many detectors) is turned; one without a batch axis (packed images) is a batch of one.
    """
    if state.ndim == 2:
        return state[None]
    if state.ndim == 4 and is_feature_map_channels_first(block, tuple(state.shape)):
        return state.flatten(2).transpose(1, 2)
    if state.ndim == 3 and state.shape[0] != batch and state.shape[1] == batch:
        return state.transpose(0, 1)
    # one text may have several rows of input: the codebooks of a sound
    if batch % state.shape[0] == 0:
        batch = state.shape[0]
    if state.shape[0] % batch:
        raise InputError(
            f"a hidden state of shape {tuple(state.shape)} does not hold {batch} inputs: this layout is not understood."
        )
    return state.reshape(batch, -1, state.shape[-1])
