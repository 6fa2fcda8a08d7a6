"""Attribute one token's state after the last block to input tokens and constants, and compare with rollout."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.capture.model_structure.blocks import BlockStack
from attncli.forward_argument_types import Inputs
from attncli.tensor_subclasses.path_streams.head_contributions import (
    RecordedRun,
    run_backward_over_blocks,
    run_forward_and_record_blocks,
)
from attncli.tensor_subclasses.path_streams.partial_streams import OriginStreams, RecordedAttention
from attncli.tensor_subclasses.path_streams.path_tensor_forward import accept_path_tensors


class RolloutRow(NamedTuple):
    """A token's row of the product of ½A + ½I over the attentions, the last one on the left."""

    attention: Tensor
    """[token]; A the mean of an attention's heads."""
    even: Tensor
    """[token]; A uniform over each query's visible keys."""


class TokenContributions(NamedTuple):
    """Contributions to one token's state."""

    state: Tensor
    """y [feature]"""
    of_inputs: Tensor
    """Σ_j c_j [feature], c_j what the state of token j at the first block's input becomes."""
    of_constants: Tensor
    """b [feature]: the contribution of biases, and of another stack's states."""
    shares: Tensor
    """⟨c_j, y⟩ / ‖y‖² [token]"""
    rollout: RolloutRow


def compute_token_contributions(
    model: nn.Module, stack: BlockStack, inputs: Inputs, token: int
) -> TokenContributions:
    """Compute both attributions in one backward pass through the blocks; rollout needs a single row."""
    with accept_path_tensors(model):
        found, blocks = run_forward_and_record_blocks(
            model, RecordedRun(stack, OriginStreams()), inputs
        )
        state = found.output[token]
        target = torch.zeros_like(found.output)
        target[token] = state / state.square().sum()
        rolling = RolloutVisitor(token, len(target))
        back = run_backward_over_blocks(blocks, target[None], rolling.multiply_rollout_by_attention)
    shares = (back * blocks[0].state.detach()).sum(dim=(0, 2))
    return TokenContributions(
        state, found.terms[0, token], found.terms[1, token], shares, rolling.rolled
    )


class RolloutVisitor:
    """e_t^T (½A_L + ½I) … (½A_1 + ½I), from the left."""

    def __init__(self, token: int, tokens: int) -> None:
        row = torch.zeros(tokens, dtype=torch.float64)
        row[token] = 1.0
        self.rolled = RolloutRow(row, row)

    def multiply_rollout_by_attention(self, attention: RecordedAttention, _: Tensor) -> None:
        mean = attention.maps[0].mean(dim=0)
        self.rolled = RolloutRow(
            multiply_rollout_by_block(self.rolled.attention, mean),
            multiply_rollout_by_block(self.rolled.even, make_uniform_attention_map(attention)),
        )


def multiply_rollout_by_block(row: Tensor, weights: Tensor) -> Tensor:
    """row (½A + ½I)"""
    return (row + row @ weights.to("cpu", torch.float64)) / 2.0


def make_uniform_attention_map(attention: RecordedAttention) -> Tensor:
    """[query, key]: uniform attention over each query's visible keys."""
    queries, keys = attention.maps.shape[-2:]
    if attention.visible is None:
        return torch.full((queries, keys), 1.0 / keys, dtype=torch.float64)
    visible = attention.visible[0, 0].double().expand(queries, keys)  # may have a single row
    return visible / visible.sum(dim=-1, keepdim=True)
