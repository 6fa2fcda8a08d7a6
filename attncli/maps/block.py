import numpy as np

from attncli.maps._map_rows import Map, at_least, normalised


def block(tokens: int, rng: np.random.Generator, *, size: int = 8) -> Map:
    """Uniform inside consecutive blocks of `size` tokens: rank = number of blocks."""
    at_least("size", size, 1)
    number = np.arange(tokens) // size
    return normalised((number[:, None] == number).astype(np.float64))
