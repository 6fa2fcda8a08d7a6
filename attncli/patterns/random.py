"""Random sparse patterns."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.errors import UsageError, require_known_names
from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_pairs,
    require_parameter_at_least,
    require_pattern_fits_memory,
)

WEIGHTS = ("uniform", "dirichlet", "exponential")


def random(
    length: int, rng: np.random.Generator, causal: bool, *, k: int = 4, weights: str = "uniform"
) -> csr_array:
    """`k` random keys per query, each key in `k` queries too; `weights` uniform, dirichlet or exponential.

    The setting of the theorem: at most k nonzeros in each row and column. Under the causal mask query i draws
    min(k, i + 1) of its visible keys, and columns are free. `dirichlet` weights are uniform on the simplex;
    `exponential` ones are 2^0, 2^-1, … in random order, so that their largest ratio is known.
    """
    require_parameter_at_least("random", "k", k, 1)
    require_pattern_fits_memory("random", float(length) * k)
    if k > length:
        raise UsageError(
            f"pattern 'random': k = {k} keys per query, but there are only {length}: give `length` {k} or more, or fewer "
            f"keys, as in the `pattern` random:k={length}."
        )
    require_known_names("weights of pattern 'random'", [weights], WEIGHTS)
    query, key = (
        sample_random_causal_pairs(length, k, rng)
        if causal
        else sample_random_regular_pairs(length, k, rng)
    )
    return make_pattern_from_pairs(
        length, query, key, sample_random_weights(weights, query, k, rng)
    )


def sample_random_weights(
    kind: str, query: NDArray[np.int64], k: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """A weight for each pair; a Dirichlet(1) row is k exponential variables over their sum."""
    if kind == "uniform":
        return np.ones(len(query))
    if kind == "dirichlet":
        return rng.exponential(size=len(query))
    order = np.lexsort((rng.random(len(query)), query))
    first = np.searchsorted(query[order], query[order])
    rank = np.empty(len(query))
    rank[order] = np.arange(len(query)) - first
    return 0.5**rank


def sample_random_regular_pairs(
    length: int, k: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """k random permutations, repaired until no query has a key twice: exactly k per row and column.

    A repeated key is exchanged with that of a random other query, which keeps the column counts.
    """
    # repair would be slow where rows are nearly full: a relabelled circulant is exact
    if 2 * k > length:
        shift = np.add.outer(rng.permutation(length), rng.permutation(length)[:k]) % length
        return np.repeat(np.arange(length), k), rng.permutation(length)[shift].ravel()
    keys = np.stack([rng.permutation(length) for _ in range(k)], axis=1)
    for column in range(1, k):
        while (rows := np.flatnonzero(find_repeated_keys(keys, column))).size:
            for row, other in zip(rows, rng.integers(length, size=rows.size), strict=True):
                keys[[row, other], column] = keys[[other, row], column]
    return np.repeat(np.arange(length), k), keys.ravel()


def find_repeated_keys(keys: NDArray[np.int64], column: int) -> NDArray[np.bool_]:
    """Which queries have the key of `column` in an earlier column already."""
    result: NDArray[np.bool_] = (keys[:, :column] == keys[:, column, None]).any(axis=1)
    return result


def sample_random_causal_pairs(
    length: int, k: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """min(k, i + 1) distinct keys of 0 … i for each query i (Floyd's sampling, one key a round)."""
    tokens = np.arange(length)
    chosen = np.full((length, k), -1)
    for step in range(k):
        top = tokens - (k - 1 - step)  # Floyd: draw from 0 … top; if taken already, take top itself
        open_rows = np.flatnonzero(top >= 0)
        drawn = rng.integers(top[open_rows] + 1)
        taken = (chosen[open_rows, :step] == drawn[:, None]).any(axis=1)
        chosen[open_rows, step] = np.where(taken, top[open_rows], drawn)
    query = np.repeat(tokens, k)
    real = chosen.ravel() >= 0
    return query[real], chosen.ravel()[real]
