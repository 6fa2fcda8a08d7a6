import numpy as np

from attncli.maps._map_rows import Map, mask_future, require_number_in_range, softmax_rows


def iid(tokens: int, rng: np.random.Generator, *, sigma: float = 1.0, causal: bool = False) -> Map:
    """Softmax of independent N(0, sigma²) logits: stable rank → e^(sigma²), entropy → ln n - sigma²/2 for large n."""
    require_number_in_range("sigma", sigma, 0.0)
    return softmax_rows(mask_future(sigma * rng.standard_normal((tokens, tokens)), causal))
