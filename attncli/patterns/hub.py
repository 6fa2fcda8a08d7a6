"""Hubs."""

import numpy as np
from scipy.sparse import csr_array

from attncli.errors import UsageError
from attncli.patterns._make_sparse_pattern import (
    make_pattern_from_pairs,
    require_parameter_at_least,
    require_pattern_fits_memory,
)


def hub(
    length: int, rng: np.random.Generator, causal: bool, *, k: int = 2, exponent: float = 1.0
) -> csr_array:
    """Hubs: the query itself and up to `k` keys whose popularity follows a power law.

    Key j is drawn with probability ∝ (j + 1)^-exponent among the visible ones; repeated draws count once, so columns
    are far from the theorem's k nonzeros.
    """
    require_parameter_at_least("hub", "k", k, 0)
    require_pattern_fits_memory("hub", float(length) * (k + 1))
    if not 0.0 <= exponent < 50.0:
        raise UsageError(f"pattern 'hub': exponent must be in 0 … 50, not {exponent}.")
    cumulative = np.cumsum(np.arange(1.0, length + 1.0) ** -exponent)
    tokens = np.arange(length)[:, None]
    reach = cumulative[tokens] if causal else np.full((length, 1), cumulative[-1])
    drawn = np.searchsorted(cumulative, rng.random((length, k)) * reach, side="right")
    return make_pattern_from_pairs(
        length, tokens, np.concatenate([tokens, np.minimum(drawn, length - 1)], axis=1)
    )
