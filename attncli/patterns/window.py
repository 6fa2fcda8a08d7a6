"""Sliding window."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_offsets,
    require_parameter_at_least,
)


def window(length: int, rng: np.random.Generator, causal: bool, *, size: int = 3) -> csr_array:
    """Sliding window: the `size` nearest keys, centred on the query (causal: the last `size`).

    Keys i - size // 2 … i + (size - 1) // 2, or i - size + 1 … i under the causal mask (Beltagy et al. 2020).
    """
    require_parameter_at_least("window", "size", size, 1)
    start = 1 - size if causal else -(size // 2)
    return make_pattern_from_offsets(length, range(start, start + size), causal)
