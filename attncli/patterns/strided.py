"""Strided attention."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_offsets,
    require_parameter_at_least,
)


def strided(length: int, rng: np.random.Generator, causal: bool, *, stride: int = 8) -> csr_array:
    """Every `stride`-th key, counted from the query: j with i - j divisible by `stride` (Child et al. 2019).

    The number of keys per query grows with the length: length / stride.
    """
    require_parameter_at_least("strided", "stride", stride, 1)
    ahead = np.arange(0, length, stride)
    return make_pattern_from_offsets(length, np.concatenate([-ahead[:0:-1], ahead]), causal)
