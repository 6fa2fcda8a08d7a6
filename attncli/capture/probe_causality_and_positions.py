"""Test what keeps a model's attention from collapsing to one common row."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import nn

from attncli.capture import AttentionSite, Strip, VerifiedCapture, capture_attention
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    replace_tensor_argument,
)
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.tolerances import UNIFORM_ROW


@dataclass(frozen=True)
class AttentionProperties:
    """Properties of one stack's attention."""

    causal: bool
    positional: bool
    """Whether queries distinguish keys by position, so that equal tokens get unequal weights."""
    crosses: bool = False
    """Whether any of its blocks attends to another stack's states, which its own residual leaves as they are."""
    mixers: bool = False
    """Whether anything in its blocks mixes tokens without a softmax."""
    mlps: bool = True
    """Whether any of its blocks adds an MLP."""

    @property
    def causes_of_linear_collapse_rate(self) -> str:
        parts = {
            "causal mask": self.causal,
            "positions in the attention": self.positional,
            "cross-attention": self.crosses,
            "layers that mix tokens without a softmax": self.mixers,
        }
        return ", ".join(part for part, on in parts.items() if on)


def detect_causality_and_positions(
    model: nn.Module, stacks: tuple[BlockStack, ...], inputs: Inputs, proof: VerifiedCapture
) -> dict[str, AttentionProperties]:
    """Find the properties of every stack, from its maps on states in which all tokens are equal."""
    uneven: set[str] = set()
    with (
        torch.no_grad(),
        record_attention_with_unequal_weights(model, proof, uneven),
        replace_all_tokens_by_first(stacks),
    ):
        model(**inputs)
    return build_attention_properties(stacks, proof, uneven)


def record_attention_with_unequal_weights(
    model: nn.Module, proof: VerifiedCapture, uneven: set[str]
) -> AbstractContextManager[object]:
    """Within, add the names of attentions with unequal weights: where all tokens are equal, these know positions."""

    def record_map_with_unequal_rows(site: AttentionSite, strip: Strip) -> None:
        if site.is_self_attention and not has_uniform_attention_rows(strip):
            uneven.add(site.name)

    return capture_attention(
        model, record_map_with_unequal_rows, apart=proof.module_paths_of_separate_softmaxes
    )


def build_attention_properties(
    stacks: tuple[BlockStack, ...], proof: VerifiedCapture, uneven: set[str]
) -> dict[str, AttentionProperties]:
    """The properties of every stack; `uneven`: attentions with unequal weights on equal tokens."""
    causal = {site.name for site in proof.causal if site.is_self_attention}
    crossing = {site.name for site in proof.sites if not site.is_self_attention}
    return {
        stack.name: AttentionProperties(
            *(is_any_module_in_block_stack(names, stack) for names in (causal, uneven, crossing))
        )
        for stack in stacks
    }


def replace_all_tokens_by_first(stacks: tuple[BlockStack, ...]) -> Output:
    """Replace all tokens of every stack's first input by its first token."""

    def repeat_first_token(forward: Function, _: nn.Module, args: Args, kwargs: Kwargs) -> Output:
        stream = find_residual_stream_input(args, kwargs)
        if stream is not None and stream.dim() == 3:
            alike = stream[:, :1].expand_as(stream).contiguous()
            args, kwargs = replace_tensor_argument(args, kwargs, stream, alike)
        return forward(*args, **kwargs)

    return wrap_forwards([stack.calls[0].module for stack in stacks], repeat_first_token)


def has_uniform_attention_rows(strip: Strip) -> bool:
    """Whether every row is uniform over its visible keys."""
    weights = strip.weights
    seen = weights > 0
    mean = weights.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)
    return bool(
        (
            torch.where(seen, weights / mean - 1.0, 0.0).abs() < UNIFORM_ROW.tolerance_for_dtype()
        ).all()
    )


def is_any_module_in_block_stack(names: set[str], stack: BlockStack) -> bool:
    """Whether one of the modules is in a block of the stack."""
    return any(name.startswith(f"{call.name}.") for name in names for call in stack.calls)
