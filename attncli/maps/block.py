import numpy as np

from attncli.maps._map_rows import Map, normalise_rows, require_number_in_range


def block(tokens: int, rng: np.random.Generator, *, size: int = 8) -> Map:
    """Uniform inside consecutive blocks of `size` tokens: rank = number of blocks."""
    require_number_in_range("size", size, 1)
    number = np.arange(tokens) // size
    return normalise_rows((number[:, None] == number).astype(np.float64))
