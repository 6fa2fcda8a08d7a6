"""Relevance after Chefer, Gur & Wolf 2021: maps times their gradients, rolled through self- and cross-attention."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.analysis.paths.decomposed_model import DecomposableModel
from attncli.capture import AttentionSite
from attncli.capture.map_gradients import (
    DifferentiableMap,
    refuse_incomplete_maps,
    retain_maps_with_gradients,
)
from attncli.capture.model_structure.blocks import collect_distinct_blocks, observe_block_states
from attncli.capture.softmax_attention.attention_site_names import find_block_stack_of_attention
from attncli.commands.attribute.relevance_targets import STATE, TargetScore, select_score_to_explain
from attncli.errors import InputError
from attncli.models.inputs.model_input import ModelInput
from attncli.tolerances import FIXED_LENGTH


@dataclass(frozen=True)
class RelevanceRequest:
    """Options of relevance: the score and how it is computed."""

    target: str
    """`state`, `top`, a class or a token of the vocabulary."""
    verified_sites: frozenset[AttentionSite]
    """The attentions that the model is known to have."""


class Relevance(NamedTuple):
    """Relevance of the tokens of one text."""

    score: TargetScore
    own: list[float]
    """Relevance of each token of the attending stack, minus the identity that relevance starts
    from."""
    source: list[float]
    """Relevance of each token that the other stack reads; empty where there is none."""


class WeightedMap(NamedTuple):
    """One attention: the positive part of map · gradient, averaged over the heads."""

    site: AttentionSite
    weights: Tensor
    """E_h[(∇A ⊙ A)⁺] [query, key]"""


def compute_relevance(
    subject: DecomposableModel, text: ModelInput, position: int, request: RelevanceRequest
) -> Relevance:
    """Run one forward and one backward pass, with the maps of all layers in memory."""
    headless = request.target == STATE
    model = subject.model_without_head if headless else subject.checkpoint.model
    last: list[Tensor] = []

    def record_last_hidden_state(name: str, index: int, state: Tensor) -> None:
        if (name, index) == (subject.stack.name, len(subject.stack.calls)):
            last.append(state[0])

    with (
        torch.enable_grad(),
        retain_maps_with_gradients(
            subject.model_without_head, collect_distinct_blocks(subject.stacks)
        ) as attention_maps,
        observe_block_states(subject.model_without_head, subject.stacks, record_last_hidden_state),
    ):
        output = model(**text.kwargs)
        refuse_incomplete_maps(attention_maps, request.verified_sites)
        state = last[0][position]
        explained, score = select_score_to_explain(
            subject.checkpoint, request.target, output, state, position
        )
        gradients = torch.autograd.grad(
            score, [each.weights for each in attention_maps], allow_unused=True
        )
    weighed = [
        multiply_map_by_gradient(each, gradient)
        for each, gradient in zip(attention_maps, gradients, strict=True)
    ]
    own, source = compute_relevance_rollout(
        weighed, find_layer_stack_of_token(subject, weighed, len(last[0]))
    )
    row = own[position]
    row[position] -= 1.0
    if headless:
        refuse_vector_norm_fixed_by_layer_norm(row, text)
    return Relevance(explained, row.tolist(), [] if source is None else source[position].tolist())


def refuse_vector_norm_fixed_by_layer_norm(row: Tensor, text: ModelInput) -> None:
    """Refuse the norm of a state that a norm layer has just fixed: its gradient along itself is
    zero."""
    if not float(row.abs().max()) > FIXED_LENGTH.tolerance_for_dtype():
        raise InputError(
            f"{text.name}: the state comes from a norm, which fixes its length, so that nothing moves it in its own "
            "direction: explain a class or a token of a model with a head."
        )


def find_layer_stack_of_token(
    subject: DecomposableModel, attentions: Iterable[WeightedMap], tokens: int
) -> str:
    """The name that attention sites give to the stack of the explained token."""
    found = {
        each.site.stack
        for each in attentions
        if each.site.is_self_attention
        and len(each.weights) == tokens
        and find_block_stack_of_attention(each.site, subject.stacks) == subject.stack.name
    }
    if len(found) != 1:
        raise InputError(
            f"it is not known which attentions are those of stack {subject.stack.name}: relevance cannot be told for this model."
        )
    return found.pop()


def multiply_map_by_gradient(
    attention_map: DifferentiableMap, gradient: Tensor | None
) -> WeightedMap:
    """E_h[(∇A ⊙ A)⁺]; a map that the score does not hang on has no gradient, and is 0."""
    weights = attention_map.weights.detach().to("cpu", torch.float64)[0]
    if gradient is None:
        return WeightedMap(attention_map.site, torch.zeros_like(weights[0]))
    product = weights * gradient.to("cpu", torch.float64)[0]
    return WeightedMap(attention_map.site, product.clamp_min(0.0).mean(dim=0))


def compute_relevance_rollout(
    attentions: Iterable[WeightedMap], stack: str
) -> tuple[Tensor, Tensor | None]:
    """R of a stack to itself, and to the stack that its cross-attention reads: the paper's
    equations 5 to 10.

    Equation 11 adds what the other stack has taken over from this one, which in an encoder-decoder is nothing.
    """
    whole: dict[str, Tensor] = {}
    across: Tensor | None = None
    for site, weights in attentions:
        queries, keys = weights.shape
        own = whole.setdefault(site.stack, torch.eye(queries, dtype=weights.dtype))
        if site.is_self_attention:
            whole[site.stack] = own + weights @ own
            if site.stack == stack and across is not None:
                across = across + weights @ across
            continue
        other = find_relevance_of_attended_encoder(whole, site, keys)
        added = normalise_relevance_rows(own).T @ weights @ normalise_relevance_rows(other)
        across = added if across is None else across + added
    return whole[stack], across


def find_relevance_of_attended_encoder(
    whole: dict[str, Tensor], site: AttentionSite, keys: int
) -> Tensor:
    found = [each for stack, each in whole.items() if stack != site.stack and len(each) == keys]
    if len(found) != 1:
        raise InputError(
            f"{site.name} attends to states of which it is not known what they came from: relevance has rules for "
            "encoder-decoders alone."
        )
    return found[0]


def normalise_relevance_rows(own: Tensor) -> Tensor:
    """R̄ = R̂ / Σ R̂ + I, R̂ = R - I: equations 8 and 9; zero rows stay zero."""
    eye = torch.eye(len(own), dtype=own.dtype)
    added = own - eye
    sums = added.sum(dim=-1, keepdim=True)
    return (added / sums.masked_fill(sums == 0.0, 1.0)) + eye
