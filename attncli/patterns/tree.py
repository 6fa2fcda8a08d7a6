"""Tree."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_pairs,
    require_parameter_at_least,
)


def tree(length: int, rng: np.random.Generator, causal: bool, *, arity: int = 2) -> csr_array:
    """A tree in heap order: the query itself, its parent (i - 1) // arity and (unless causal) its children."""
    require_parameter_at_least("tree", "arity", arity, 1)
    child = np.arange(1, length)
    parent = (child - 1) // arity
    own = np.arange(length)
    query = [own, child] if causal else [own, child, parent]
    key = [own, parent] if causal else [own, parent, child]
    return make_pattern_from_pairs(length, np.concatenate(query), np.concatenate(key))
