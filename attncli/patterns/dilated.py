"""Dilated sliding window."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_offsets,
    require_parameter_at_least,
)


def dilated(
    length: int, rng: np.random.Generator, causal: bool, *, size: int = 4, dilation: int = 2
) -> csr_array:
    """Sliding window with gaps: `size` keys, `dilation` apart (Beltagy et al. 2020).

    Offsets are dilation · m, for m as in `window`: centred on the query, or (causal) ending at it.
    """
    require_parameter_at_least("dilated", "size", size, 1)
    require_parameter_at_least("dilated", "dilation", dilation, 1)
    start = 1 - size if causal else -(size // 2)
    offsets = range(dilation * start, dilation * (start + size), dilation)
    return make_pattern_from_offsets(length, offsets, causal)
