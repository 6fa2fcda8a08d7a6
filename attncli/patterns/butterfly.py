"""Butterfly."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import make_pattern_from_pairs


def butterfly(length: int, rng: np.random.Generator, causal: bool) -> csr_array:
    """Butterfly: the query itself and all keys whose index differs in one binary digit (flat butterfly, Dao et al. 2022)."""
    tokens = np.arange(length)[:, None]
    steps = 2 ** np.arange(max(length - 1, 0).bit_length())
    return make_pattern_from_pairs(length, tokens, np.concatenate([tokens, tokens ^ steps], axis=1))
