"""Search for tokens that make a head of the first layer show a pattern, by exchanging one token at
a time.

With all other tokens fixed, a candidate at position p decides row p of the logits and column p; both are known for every
candidate at once. The sum over rows of the Kullback-Leibler divergence falls with every exchange, so the search ends;
where it ends depends on its start, so there are several: tokens assigned to the queries and keys of a free fit, each
taken once at most, and random ones. Our own procedure; it proves nothing about what it does not find.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from attncli.commands.head_capacity.one_head.token_queries_and_keys import TokenTable
from attncli.progress import Progress, ignore_progress

Array = NDArray[np.float64]
Index = NDArray[np.int64]

SWEEPS = 12


@dataclass(frozen=True)
class TokenSearchResult:
    """The best text found."""

    indices: Index
    """Index of each position's token among the candidates."""
    divergence: float
    """Σ_i KL(A_i ‖ M_i), up to the constant entropy of the pattern."""


def search_best_tokens(
    table: TokenTable,
    target: Array,
    causal: bool,
    free: tuple[Array, Array] | None,
    seeds: Sequence[int],
    progress: Progress = ignore_progress,
) -> TokenSearchResult:
    """Return the best of all starts; `free`: queries and keys that show the pattern, from
    unrestricted inputs."""
    starts = list(iter_starting_texts(table, free, seeds))
    found: list[TokenSearchResult] = []
    for number, start in enumerate(starts):
        progress(number, len(starts), "starts")
        found.append(improve_by_token_swaps(table, target, causal, start))
    progress(len(starts), len(starts), "starts")
    return min(found, key=lambda each: each.divergence)


def iter_starting_texts(
    table: TokenTable, free: tuple[Array, Array] | None, seeds: Sequence[int]
) -> Iterator[Index]:
    length = table.queries.shape[1]
    if free is not None and len(table.ids) >= length:
        yield assign_tokens_to_positions(table, free)
    for seed in seeds:
        drawn: Index = np.random.default_rng(seed).integers(len(table.ids), size=(length,))
        yield drawn


def assign_tokens_to_positions(table: TokenTable, free: tuple[Array, Array]) -> Index:
    """Assign to each position the token whose query and key are nearest in direction, no token
    twice."""
    likeness = sum(
        np.einsum(
            "cpd,pd->pc",
            scale_vectors_to_unit_length(own),
            scale_vectors_to_unit_length(projections),
        )
        for own, projections in zip((table.queries, table.keys), free, strict=True)
    )
    chosen: Index = linear_sum_assignment(likeness, maximize=True)[1].astype(np.int64)
    return chosen


def scale_vectors_to_unit_length(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: NDArray[np.floating] = vectors / np.maximum(length, 1e-30)
    return result


def improve_by_token_swaps(
    table: TokenTable, target: Array, causal: bool, start: Index
) -> TokenSearchResult:
    """Exchange the token at one position after the other, until a whole sweep changes nothing."""
    chosen, places = start.copy(), np.arange(len(start))
    for _ in range(SWEEPS):
        before = chosen.copy()
        for position in places:
            losses = losses_of_candidate_tokens(table, target, causal, chosen, int(position))
            best = int(losses.argmin())
            if losses[best] < losses[chosen[position]]:
                chosen[position] = best
        if (chosen == before).all():
            break
    logits = attention_logits_of_tokens(table, chosen, causal)
    return TokenSearchResult(chosen, float(cross_entropy_per_query(logits, target).sum()))


def attention_logits_of_tokens(table: TokenTable, chosen: Index, causal: bool) -> Array:
    places = np.arange(len(chosen))
    logits = (table.queries[chosen, places] @ table.keys[chosen, places].T).astype(np.float64)
    if causal:
        logits[places[None, :] > places[:, None]] = -np.inf
    return logits


def losses_of_candidate_tokens(
    table: TokenTable, target: Array, causal: bool, chosen: Index, position: int
) -> Array:
    """[candidate]: the divergence with it at this position, without terms that no candidate
    changes."""
    places = np.arange(len(chosen))
    queries, keys = table.queries[chosen, places], table.keys[chosen, places]
    row = table.queries[:, position] @ keys.T
    row[:, position] = np.einsum("cd,cd->c", table.queries[:, position], table.keys[:, position])
    if causal:
        row[:, position + 1 :] = -np.inf
    total = cross_entropy_per_query(row, target[position])
    others = places[places > position] if causal else places[places != position]
    if not len(others):
        return total
    rest = attention_logits_of_tokens(table, chosen, causal)[others]
    rest[:, position] = -np.inf
    column = (table.keys[:, position] @ queries[others].T).astype(np.float64)
    changed = np.logaddexp(log_sum_exp(rest), column) - target[others, position] * column
    result: Array = total + changed.sum(axis=1)
    return result


def cross_entropy_per_query(logits: NDArray[np.floating], target: Array) -> Array:
    """log Σ_j e^{l_j} - Σ_j A_j l_j of every row; hidden keys have no weight in the target."""
    on = np.where(target > 0.0, logits, 0.0)
    result: Array = log_sum_exp(logits) - (on * target).sum(axis=-1)
    return result


def log_sum_exp(logits: NDArray[np.floating]) -> Array:
    top = logits.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):  # a row that sees nothing but this position
        result: Array = np.log(np.exp(logits - top).sum(axis=-1)) + top[..., 0]
    return result
