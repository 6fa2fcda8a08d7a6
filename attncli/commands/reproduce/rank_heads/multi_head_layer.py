"""H heads of rank r, one query, no norms and no biases; the weights of several independent seeds at
once.

    y ↦ Σ_h V_h Σ_i softmax_i(x_i^T W_K,h W_Q,h^T y) x_i        W_Q, W_K [d, r], V [d, d]

Values are of full rank for every r: only the rank of queries and keys differs. Axes: s seed, b question, n token, h head,
d e features, r rank.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from attncli.commands.reproduce.rank_heads.nearest_token_task import (
    NearestTokenProblems,
    Points,
    sample_nearest_token_problems,
)

TRAINING, ASKED = range(2)
"""Streams of random numbers of one seed."""
BATCH = 256
ASKED_QUESTIONS = 4096


class BatchedHeadLayers(nn.Module):
    """One layer for each seed, side by side."""

    def __init__(self, dimension: int, rank: int, heads: int, seeds: Sequence[int]) -> None:
        super().__init__()
        drawn = [sample_initial_weights(dimension, rank, heads, seed) for seed in seeds]
        for name in drawn[0]:
            stacked = np.stack([weights[name] for weights in drawn])
            self.register_parameter(name, nn.Parameter(torch.from_numpy(stacked).float()))

    def forward(self, tokens: Tensor, queries: Tensor) -> Tensor:
        """Answers [s, b, d] to tokens [s, b, n, d] and queries [s, b, d]."""
        keys = torch.einsum("sbnd,shdr->sbhnr", tokens, self.get_parameter("w_k"))
        heads_queries = torch.einsum("sbd,shdr->sbhr", queries, self.get_parameter("w_q"))
        weights = torch.softmax(torch.einsum("sbhnr,sbhr->sbhn", keys, heads_queries), dim=-1)
        mixed = torch.einsum("sbhn,sbnd->sbhd", weights, tokens)
        answers: Tensor = torch.einsum("sbhd,shde->sbe", mixed, self.get_parameter("w_v"))
        return answers


def sample_initial_weights(dimension: int, rank: int, heads: int, seed: int) -> dict[str, Points]:
    """Logits of about 1 at the start; values near the identity, shared out over the heads."""
    stream = np.random.default_rng(seed)
    key = (heads, dimension, rank)
    scale = math.sqrt(dimension) / rank**0.25
    noise = stream.normal(size=(heads, dimension, dimension)) / dimension
    return {
        "w_q": stream.normal(size=key) * scale / math.sqrt(dimension),
        "w_k": stream.normal(size=key) * scale / math.sqrt(dimension),
        "w_v": (np.eye(dimension) + noise) / heads,
    }


def sample_test_problems(
    tokens: int, dimension: int, seeds: Sequence[int]
) -> list[NearestTokenProblems]:
    """Draw the test questions of each seed."""
    return [
        sample_nearest_token_problems(
            np.random.default_rng([seed, ASKED]), ASKED_QUESTIONS, tokens, dimension
        )
        for seed in seeds
    ]


def build_training_loss(
    layer: nn.Module, tokens: int, dimension: int, seeds: Sequence[int]
) -> Callable[[int], Tensor]:
    """The mean squared distance to the nearest token on new questions, summed over the seeds."""

    def compute_batch_loss(step: int) -> Tensor:
        drawn = [
            sample_nearest_token_problems(
                np.random.default_rng([seed, TRAINING, step]), BATCH, tokens, dimension
            )
            for seed in seeds
        ]
        missed: Tensor = layer(*stack_problems_of_seeds(drawn)) - stack_arrays_to_tensor(
            [each.nearest_tokens for each in drawn]
        )
        return missed.square().sum(dim=-1).mean(dim=1).sum()

    return compute_batch_loss


def stack_problems_of_seeds(questions: Sequence[NearestTokenProblems]) -> tuple[Tensor, Tensor]:
    """Tokens and queries of all seeds."""
    return stack_arrays_to_tensor([each.tokens for each in questions]), stack_arrays_to_tensor(
        [each.queries for each in questions]
    )


def stack_arrays_to_tensor(arrays: Sequence[Points]) -> Tensor:
    return torch.from_numpy(np.stack(arrays)).float()


def compute_layer_predictions(
    layer: nn.Module, questions: Sequence[NearestTokenProblems]
) -> Sequence[Points]:
    """[b, d] of every seed, in float64."""
    with torch.no_grad():
        found = layer(*stack_problems_of_seeds(questions))
    return [each.double().numpy() for each in found]
