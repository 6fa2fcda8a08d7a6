"""Attention of every stream's values with the full stream's weights."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.capture.softmax_attention.attention_interface import find_unpatched_eager_attention
from attncli.capture.softmax_attention.rowwise_masks import (
    find_keys_shown_by_mask,
    materialise_mask,
)
from attncli.errors import InputError
from attncli.forward_argument_types import Function
from attncli.tensor_subclasses.path_streams.partial_streams import (
    RecordedAttention,
    make_missing_rule_error,
)
from attncli.tensor_subclasses.path_streams.path_tensor import PathTensor, rule
from attncli.tensor_subclasses.sdpa_by_definition import evaluate_sdpa
from attncli.tolerances import PATH_ATTENTION


def compute_attention_of_path_streams(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **keywords: Any,
) -> tuple[Any, None]:
    """Replace a model's eager attention; [batch, head, token, width] in, [batch, token, head, width] out."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    mask = materialise_mask(attention_mask)
    full = select_full_residual_stream_qkv(query, key, value)
    with torch.no_grad():
        output, weights = find_unpatched_eager_attention(module)(
            module, *full, mask, scaling=scaling, **keywords
        )
    if not isinstance(value, PathTensor):
        return treat_cross_attention_as_constant(query, key, output), None
    numbers = value.numbers
    repeats = weights.shape[1] // numbers.shape[1]
    values = numbers if repeats == 1 else numbers.repeat_interleave(repeats, dim=1)
    maps = weights.to(values.dtype)
    visible = find_keys_shown_by_mask(mask, maps.shape[-1])
    outputs = value.streams.select_attention_outputs_per_path(
        RecordedAttention(maps, visible, torch.matmul(maps, values))
    )
    mixed = outputs.transpose(1, 2).contiguous()
    verify_attention_output(module, mixed[: len(output)].detach(), output)
    return value.wrap_as_path_streams(mixed).mark_attention_output(), None


@rule(F.scaled_dot_product_attention)
def compute_sdpa_of_path_streams(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Tensor:
    """sdpa called by the model's own code; the mask is that of the full stream, the same for the whole batch."""
    mask = materialise_mask(attn_mask)
    if mask is not None and mask.dim() == query.dim():
        mask = mask[:1]
    if isinstance(value, PathTensor):
        return evaluate_sdpa(query, key, value, mask, *args, **kwargs)
    full = select_full_residual_stream_qkv(query, key, value)
    own: Function = F.scaled_dot_product_attention
    return treat_cross_attention_as_constant(query, key, own(*full, mask, *args, **kwargs))


def treat_cross_attention_as_constant(query: Tensor, key: Tensor, output: Tensor) -> Tensor:
    """Cross-attention with a fixed map: its output does not depend on the stream's parts, so it is a constant."""
    if isinstance(key, PathTensor):
        raise make_missing_rule_error(
            "an attention with the stream's keys and another stack's values"
        )
    if not isinstance(query, PathTensor):
        return output
    shape = (query.streams.path_stream_count, *output.shape[1:])
    return query.wrap_as_path_streams(query.numbers.new_zeros(shape)).add_constant_to_path_streams(
        output
    )


def select_full_residual_stream_qkv(*sides: Tensor) -> list[Tensor]:
    """Queries, keys and values of the full stream; states of another stack are repeated along the batch."""
    full = [side.full_residual_stream() if isinstance(side, PathTensor) else side for side in sides]
    return [side[: len(full[0])] for side in full]


def verify_attention_output(module: nn.Module, ours: Tensor, own: Tensor) -> None:
    """Check that P V equals what the model's attention returns."""
    error = float((ours - own).abs().max() / own.abs().max().clamp_min(1e-30))
    if not error < PATH_ATTENTION.tolerance_for_dtype(own.dtype):
        raise InputError(
            f"the attention of {type(module).__name__} is not understood: its output is no product of "
            f"weights and values (it differs by {error:.1g})."
        )
