"""Induction head."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_pairs,
    require_parameter_at_least,
)


def induction(
    length: int, rng: np.random.Generator, causal: bool, *, vocabulary: int = 64
) -> csr_array:
    """Induction: the key after the latest earlier occurrence of the query's own token, else token 0.

    Tokens are random, from `vocabulary` kinds (Olsson et al. 2022); token 0 is where such heads rest.
    """
    require_parameter_at_least("induction", "vocabulary", vocabulary, 1)
    tokens = rng.integers(vocabulary, size=length)
    order = np.argsort(tokens, kind="stable")
    same = np.flatnonzero(tokens[order][1:] == tokens[order][:-1])
    key = np.zeros(length, dtype=np.int64)
    key[order[same + 1]] = order[same] + 1
    return make_pattern_from_pairs(length, np.arange(length), key)
