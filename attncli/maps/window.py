import numpy as np

from attncli.maps._map_rows import Map, normalise_rows, require_number_in_range


def window(tokens: int, rng: np.random.Generator, *, size: int = 4, causal: bool = True) -> Map:
    """Uniform over the last `size` keys if causal, else over the query's own and the nearest `size` - 1 on either side."""
    require_number_in_range("size", size, 1)
    behind = np.arange(tokens)[:, None] - np.arange(tokens)
    near = (behind >= 0) & (behind < size) if causal else np.abs(behind) < size
    return normalise_rows(near.astype(np.float64))
