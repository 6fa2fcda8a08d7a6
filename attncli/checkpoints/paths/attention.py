"""Attention of every stream's values with the full stream's weights."""

from typing import Any

import torch
from torch import Tensor, nn

from attncli.checkpoints.paths.tensor import PathTensor, refusal
from attncli.checkpoints.streaming.interface import own_eager
from attncli.checkpoints.streaming.masks import plain as whole
from attncli.errors import InputError

AGREEMENT = 1e3
"""In units of the type's rounding: how well P V must agree with what the model's own function returns."""


def attend(
    module: nn.Module,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **keywords: Any,
) -> tuple[Any, None]:
    """In place of a model's eager attention; [batch, head, token, width] in, [batch, token, head, width] out."""
    if not all(isinstance(side, PathTensor) for side in (query, key, value)):
        if any(isinstance(side, PathTensor) for side in (query, key, value)):
            raise refusal("attention to another stack's states")
        return own_eager(module)(
            module, query, key, value, whole(attention_mask), scaling=scaling, **keywords
        )[0], None
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    with torch.no_grad():
        output, weights = own_eager(module)(
            module,
            query.full(),
            key.full(),
            value.full(),
            whole(attention_mask),
            scaling=scaling,
            **keywords,
        )
    numbers = value.numbers
    repeats = weights.shape[1] // numbers.shape[1]
    values = numbers if repeats == 1 else numbers.repeat_interleave(repeats, dim=1)
    outputs = value.streams.attended(torch.matmul(weights.to(values.dtype), values))
    mixed = outputs.transpose(1, 2).contiguous()
    compare(module, mixed[: len(output)].detach(), output)
    result = value.like(mixed)
    return result.moved_on() if value.streams.count_attention else result, None


def compare(module: nn.Module, ours: Tensor, own: Tensor) -> None:
    """That P V is what the model's attention returns."""
    apart = float((ours - own).abs().max() / own.abs().max().clamp_min(1e-30))
    if not apart < AGREEMENT * torch.finfo(own.dtype).eps:
        raise InputError(
            f"attn paths does not understand the attention of {type(module).__name__}: its output is no product of "
            f"weights and values (it differs by {apart:.1g})."
        )
