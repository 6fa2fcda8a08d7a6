import numpy as np

from attncli.maps._map_rows import Map, require_number_in_range


def induction(tokens: int, rng: np.random.Generator, *, period: int = 0) -> Map:
    """On a text that repeats every `period` tokens (0 = half): query i on key i - period + 1, early queries on the first."""
    require_number_in_range("period", period, 0)
    target = np.arange(tokens) - (period or max(1, tokens // 2)) + 1
    return np.eye(tokens)[np.clip(target, 0, np.arange(tokens))]
