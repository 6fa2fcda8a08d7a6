"""Global tokens."""

import numpy as np
from scipy.sparse import csr_array

from attncli.errors import UsageError
from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_pairs,
    require_parameter_at_least,
    require_pattern_fits_memory,
)


def global_(length: int, rng: np.random.Generator, causal: bool, *, tokens: int = 1) -> csr_array:
    """Global tokens: the first `tokens` attend to all keys, and all queries to them (Beltagy et al. 2020)."""
    require_parameter_at_least("global", "tokens", tokens, 1)
    if tokens > length:
        raise UsageError(
            f"pattern 'global': {tokens} global tokens, but there are only {length}: give fewer, or a longer `length`."
        )
    require_pattern_fits_memory("global", 2.0 * length * tokens)
    query, key = np.broadcast_arrays(np.arange(length)[:, None], np.arange(tokens))
    return make_pattern_from_pairs(length, np.stack([query, key]), np.stack([key, query]))


# `global` is a keyword, so it can be the name of this function but not be written after `def`.
global_.__name__ = "global"
globals()["global"] = global_
