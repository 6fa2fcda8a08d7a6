"""Log-sparse attention."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import make_pattern_from_offsets


def logsparse(length: int, rng: np.random.Generator, causal: bool) -> csr_array:
    """Log-sparse: the query itself and the keys 1, 2, 4, 8, … before it (Li et al. 2019)."""
    steps = 2 ** np.arange(max(length - 1, 0).bit_length())
    return make_pattern_from_offsets(length, np.append(-steps, 0), causal)
