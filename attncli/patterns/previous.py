"""Previous-token head."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_pairs,
    require_parameter_at_least,
)


def previous(length: int, rng: np.random.Generator, causal: bool, *, back: int = 1) -> csr_array:
    """Previous token: query i attends to key i - `back`, the first ones to token 0."""
    require_parameter_at_least("previous", "back", back, 1)
    tokens = np.arange(length)
    return make_pattern_from_pairs(length, tokens, np.maximum(tokens - back, 0))
