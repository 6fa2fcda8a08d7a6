"""sdpa by its definition: scores, softmax and values in turn, each by the rules of the tensor subclass."""

import torch
from torch import Tensor

from attncli.capture.softmax_attention.rowwise_masks import materialise_mask


def evaluate_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute sdpa by its definition; dropout is off."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (torch.repeat_interleave(side, groups, -3) for side in (key, value))
    scores = torch.mul(
        torch.matmul(query, torch.transpose(key, -1, -2)),
        query.shape[-1] ** -0.5 if scale is None else scale,
    )
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = apply_attention_mask(scores, materialise_mask(attn_mask))
    return torch.matmul(torch.softmax(scores, dim=-1), value)


def apply_attention_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """Apply a mask: hide where a boolean mask is false, or add a mask of numbers."""
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, float("-inf"))
    return torch.add(scores, mask)
