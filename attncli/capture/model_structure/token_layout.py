"""Convert any model's hidden state to [batch, token, feature]."""

from typing import Any

import torch
from torch import nn

from attncli.capture.attention_calls import iter_tensors
from attncli.errors import InputError


def batch_size(inputs: Any) -> int:
    """The number of texts, images or sounds in one forward."""
    return next((int(tensor.shape[0]) for tensor in iter_tensors(inputs) if tensor.ndim), 1)


def is_channels_first(block: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether a four-dimensional map has its features in axis 1, by the width of the block's first weight."""
    widths = {size for weight in block.parameters() for size in weight.shape if weight.ndim == 1}
    first, last = shape[1] in widths, shape[3] in widths
    if first == last:
        raise InputError(
            f"a hidden state of shape {shape} has its features in axis 1 or 3, and the weights of "
            f"{type(block).__name__} do not say in which: this layout is not understood."
        )
    return first


def to_token_layout(state: torch.Tensor, batch: int, block: nn.Module) -> torch.Tensor:
    """[batch, token, feature] of a block's stream.

    What is folded into the batch axis (windows, frames) and what spans several axes (maps) becomes tokens; a stream
    with tokens first (XLNet, many detectors) is turned; one without a batch axis (packed images) is a batch of one.
    """
    if state.ndim == 2:
        return state[None]
    if state.ndim == 4 and is_channels_first(block, tuple(state.shape)):
        return state.flatten(2).transpose(1, 2)
    if state.ndim == 3 and state.shape[0] != batch and state.shape[1] == batch:
        return state.transpose(0, 1)
    if (
        batch % state.shape[0] == 0
    ):  # one text may have several rows of input: the codebooks of a sound
        batch = state.shape[0]
    if state.shape[0] % batch:
        raise InputError(
            f"a hidden state of shape {tuple(state.shape)} does not hold {batch} inputs: this layout is not understood."
        )
    return state.reshape(batch, -1, state.shape[-1])
