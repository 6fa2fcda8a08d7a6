"""f(x_1 … x_N, y) = the x_i nearest to y, all on the unit sphere of d dimensions, independent and uniform.

After Amsel, Yehudai and Bruna, On the benefits of rank in attention layers (2024): one head with queries and keys of full
rank shows it as exactly as its logits are large, softmax(β y · x_i) with values x_i.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


class NearestTokenProblems(NamedTuple):
    """Axes: b question, n token, d feature."""

    tokens: Points
    """[b, n, d]"""
    queries: Points
    """[b, d]"""

    @property
    def nearest_tokens(self) -> Points:
        """[b, d]: the answer."""
        scores = np.einsum("bnd,bd->bn", self.tokens, self.queries)
        found: Points = self.tokens[np.arange(len(scores)), scores.argmax(axis=1)]
        return found


def sample_nearest_token_problems(
    stream: np.random.Generator, number: int, tokens: int, dimension: int
) -> NearestTokenProblems:
    """Draw this many questions."""
    points = stream.normal(size=(number, tokens + 1, dimension))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    return NearestTokenProblems(points[:, 1:], points[:, 0])
