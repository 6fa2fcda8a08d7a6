import numpy as np

from attncli.maps._map_rows import Map, require_share
from attncli.maps.uniform import uniform


def sink(
    tokens: int, rng: np.random.Generator, *, strength: float = 1.0, causal: bool = False
) -> Map:
    """A share `strength` of every row on the first key, the rest uniform; a pure sink has s1 = √n."""
    require_share("strength", strength)
    result = (1.0 - strength) * uniform(tokens, rng, causal=causal)
    result[:, 0] += strength
    return result
