"""Longformer."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns import PATTERNS
from attncli.patterns._make_sparse_pattern import union_patterns
from attncli.patterns.window import window as sliding


def longformer(
    length: int, rng: np.random.Generator, causal: bool, *, window: int = 5, tokens: int = 1
) -> csr_array:
    """Longformer: a sliding window and global tokens (Beltagy et al. 2020)."""
    near = sliding(length, rng, causal, size=window)
    return union_patterns(near, PATTERNS["global"](length, rng, causal, tokens=tokens))
