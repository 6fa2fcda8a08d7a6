"""The gain of a chain of matrices that mix the streams of a token."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class StreamGain(NamedTuple):
    """The gain of a product of such matrices, over all tokens: 1 where each is doubly stochastic."""

    forward: float
    """The largest |sum of a row|: what equal streams become."""
    backward: float
    """The largest |sum of a column|: what equal gradients become."""


def compute_stream_mixing_gains(matrices: Sequence[NDArray[np.float64]]) -> list[StreamGain]:
    """After each matrix [token, stream out, stream in] that of the product of all so far, a later one on the left."""
    found: list[StreamGain] = []
    product: NDArray[np.float64] | None = None
    for matrix in matrices:
        product = matrix if product is None else matrix @ product
        forward, backward = (float(np.abs(product.sum(axis=axis)).max()) for axis in (-1, -2))
        found.append(StreamGain(forward, backward))
    return found
