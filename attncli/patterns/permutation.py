"""Random permutation."""

import numpy as np
from scipy.sparse import csr_array

from attncli.errors import UsageError
from attncli.patterns._make_sparse_pattern import make_pattern_from_pairs


def permutation(length: int, rng: np.random.Generator, causal: bool) -> csr_array:
    """A random permutation: every query attends to one key of its own (k = 1, the paper's simplest case)."""
    if causal:
        raise UsageError(
            "pattern 'permutation': the only causal permutation is the identity: use 'window:1' "
            "for that, 'random:k=1' for one random visible key, or leave out `causal`."
        )
    return make_pattern_from_pairs(length, np.arange(length), rng.permutation(length))
