import numpy as np

from attncli.maps._map_rows import Map, mask_future, softmax_rows


def uniform(tokens: int, rng: np.random.Generator, *, causal: bool = False) -> Map:
    """Every visible key alike: entropy ln n_i, the baseline of most measurements."""
    return softmax_rows(mask_future(np.zeros((tokens, tokens)), causal))
