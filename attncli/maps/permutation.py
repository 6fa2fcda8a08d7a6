import numpy as np

from attncli.maps._map_rows import Map


def permutation(tokens: int, rng: np.random.Generator) -> Map:
    """A random permutation: every query on one key, every key seen once, all singular values 1."""
    return np.eye(tokens)[rng.permutation(tokens)]
