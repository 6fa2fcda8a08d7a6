"""BigBird."""

import numpy as np
from scipy.sparse import csr_array

from attncli.patterns._make_sparse_pattern import union_patterns
from attncli.patterns.longformer import longformer
from attncli.patterns.random import random as drawn


def bigbird(
    length: int,
    rng: np.random.Generator,
    causal: bool,
    *,
    window: int = 3,
    tokens: int = 2,
    random: int = 3,
) -> csr_array:
    """BigBird: a sliding window, global tokens and `random` random keys per query (Zaheer et al. 2020)."""
    planned = longformer(length, rng, causal, window=window, tokens=tokens)
    return union_patterns(planned, drawn(length, rng, causal, k=random))
