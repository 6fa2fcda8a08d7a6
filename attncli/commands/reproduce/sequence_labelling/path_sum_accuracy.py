"""Sums of a few random paths of one length, drawn once and then evaluated in several ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.paths.path_selection import Path, sample_residual_path
from attncli.capture.model_structure.blocks import BlockStack, find_block_stacks
from attncli.commands.reproduce.path_subnetworks import (
    compute_path_terms_with_fixed_attention,
    layer_norm_without_weights,
    run_path_subnetworks,
)
from attncli.commands.reproduce.sequence_labeller import TokenClassifier
from attncli.errors import InputError
from attncli.tensor_subclasses.path_streams.path_tensor_forward import (
    decompose_by_path_length,
    run_single_paths,
)
from attncli.tolerances import COMPLETENESS

Sum = tuple[int, int]
"""How many paths are added, and their length."""

ELEMENTS = 2**24
"""Most numbers of all paths' states in memory at a time."""


@dataclass(frozen=True)
class SampledPathSums:
    """Random sums of paths; a path may occur in one sum more than once, as published."""

    paths: tuple[Path, ...]
    """All that are needed, each once."""
    sums: Mapping[Sum, Tensor]
    """[draw, path]: how often each of `paths` occurs in a sum."""

    def sum_terms_of_paths(self, paths: Sum, terms: Tensor) -> Tensor:
        """The sums [draw, …] of terms [path, …]."""
        total: Tensor = torch.tensordot(self.sums[paths].to(terms.dtype), terms, dims=1)
        return total


def sample_sums_of_random_paths(
    layers: int, heads: int, numbers: Sequence[int], draws: int, stream: np.random.Generator
) -> SampledPathSums:
    """For each number of paths and each length: layers without replacement, heads uniformly."""
    found: dict[Path, int] = {}
    indices: dict[Sum, Tensor] = {}
    for number in numbers:
        for length in range(layers + 1):
            paths = [
                sample_residual_path(stream, [heads] * layers, length)
                for _ in range(draws * number)
            ]
            places = [found.setdefault(path, len(found)) for path in paths]
            indices[number, length] = torch.tensor(places).reshape(draws, number)
    return SampledPathSums(
        tuple(found),
        {
            path_sum: torch.zeros(draws, len(found)).scatter_add_(1, index, torch.ones(index.shape))
            for path_sum, index in indices.items()
        },
    )


class FrozenPathAccuracies(NamedTuple):
    """Accuracies of the frozen network's paths on all sequences."""

    accuracies: dict[Sum, float]
    of_length: list[float]
    """All paths of a length together, with the constants of the network that begin on them."""
    up_to_length: list[float]
    completeness: float
    """How far all terms together are from the output, where they are farthest."""


def measure_fixed_attention_accuracies(
    network: TokenClassifier,
    inputs: Tensor,
    labels: Tensor,
    draws: SampledPathSums,
    advance: Callable[[], None],
) -> FrozenPathAccuracies:
    """Measure sums of terms, with attention and norm denominators of the full pass, so that terms
    add up.

    The classifier is linear: logits are added in place of states.
    """
    (stack, *_) = find_block_stacks(network, {"inputs": inputs[:1]})
    verify_single_path_terms(network, stack, {"inputs": inputs[:1]}, draws.paths)
    of_lengths, errors = [], []
    right: dict[Sum, list[Tensor]] = {path_sum: [] for path_sum in draws.sums}
    for part in slice_sequences_to_fit_memory(network, inputs, len(draws.paths)):
        terms = compute_path_terms_with_fixed_attention(network, inputs[part], draws.paths)
        logits = torch.stack([network.classifier(term) for term in terms])
        for path_sum in draws.sums:
            right[path_sum].append(
                mark_correct_tokens(draws.sum_terms_of_paths(path_sum, logits), labels[part])
            )
        for sequence in inputs[part]:
            lengths, error = decompose_output_by_path_length(
                network, stack, {"inputs": sequence[None]}
            )
            of_lengths.append(network.classifier(lengths))
            errors.append(error)
            advance()
    by_length = torch.stack(of_lengths, dim=1)
    return FrozenPathAccuracies(
        share_of_correct_labels(right),
        [compute_token_accuracy(logits, labels) for logits in by_length],
        [compute_token_accuracy(logits, labels) for logits in by_length.cumsum(dim=0)],
        max(errors),
    )


FEW = 3
"""Number of paths on which the terms are compared with those of the network's own code."""


def verify_single_path_terms(
    network: TokenClassifier, stack: BlockStack, inputs: Mapping[str, Tensor], paths: Sequence[Path]
) -> None:
    """Verify that single paths' terms equal those of `attn paths MODEL --path`, on the first
    sequence."""
    few = [*paths[:FEW], *paths[-FEW:]]
    ours = torch.cat(compute_path_terms_with_fixed_attention(network, inputs["inputs"], few))
    own = run_single_paths(network, stack, inputs, few).terms
    error = float((ours - own).norm() / own.norm())
    if not error <= COMPLETENESS.tolerance_for_dtype(own.dtype):
        raise InputError(
            f"terms of single paths differ by {error:.1g} from those of the network's own code."
        )


def decompose_output_by_path_length(
    network: TokenClassifier, stack: BlockStack, inputs: Mapping[str, Tensor]
) -> tuple[Tensor, float]:
    """The terms [length, token, feature], checked against the output of a plain pass."""
    terms = decompose_by_path_length(network, stack, inputs, count_attention=True)[0].terms
    output = network.compute_final_states(**inputs)[0]
    error = float((terms.sum(dim=0) - output).norm() / output.norm())
    if not error <= COMPLETENESS.tolerance_for_dtype(output.dtype):
        raise InputError(
            f"the paths of all lengths add up to the output within {error:.1g} only: "
            "the decomposition cannot be trusted and is not reported."
        )
    return terms, error


def measure_subnetwork_accuracies(
    network: TokenClassifier, inputs: Tensor, labels: Tensor, draws: SampledPathSums
) -> dict[Sum, float]:
    """Run sub-networks on their own, some sequences at a time."""
    right: dict[Sum, list[Tensor]] = {path_sum: [] for path_sum in draws.sums}
    for part in slice_sequences_to_fit_memory(network, inputs, len(draws.paths)):
        states = torch.stack(run_path_subnetworks(network, inputs[part], draws.paths))
        for path_sum in draws.sums:
            logits = network.classifier(
                layer_norm_without_weights(draws.sum_terms_of_paths(path_sum, states))
            )
            right[path_sum].append(mark_correct_tokens(logits, labels[part]))
    return share_of_correct_labels(right)


def share_of_correct_labels(right: Mapping[Sum, list[Tensor]]) -> dict[Sum, float]:
    """Of each kind of sum the part that is right, over its draws [draw, sequence, token] of some sequences at a time."""
    return {path_sum: float(torch.cat(parts, dim=1).mean()) for path_sum, parts in right.items()}


def slice_sequences_to_fit_memory(
    network: TokenClassifier, inputs: Tensor, paths: int
) -> Iterator[slice]:
    """Slices of sequences whose states on all paths fit in memory."""
    size = max(1, ELEMENTS // (paths * inputs.shape[1] * network.classifier.in_features))
    return (slice(start, start + size) for start in range(0, len(inputs), size))


def compute_token_accuracy(logits: Tensor, labels: Tensor) -> float:
    """The fraction of all tokens whose largest logit is that of their label."""
    return float(mark_correct_tokens(logits, labels).mean())


def mark_correct_tokens(logits: Tensor, labels: Tensor) -> Tensor:
    """1 or 0 for each token."""
    return (logits.argmax(dim=-1) == labels).double()
