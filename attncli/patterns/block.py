"""Block-diagonal attention."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_pairs,
    require_parameter_at_least,
    require_pattern_fits_memory,
)


def block(length: int, rng: np.random.Generator, causal: bool, *, size: int = 16) -> csr_array:
    """Blocks on the diagonal: all keys in the query's own block of `size` tokens (the last may be shorter)."""
    require_parameter_at_least("block", "size", size, 1)
    size = min(size, length)
    require_pattern_fits_memory("block", float(length) * size)
    tokens = np.arange(length)[:, None]
    return make_pattern_from_pairs(length, tokens, tokens // size * size + np.arange(size))
