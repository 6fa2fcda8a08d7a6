"""Tokens as unit vectors, for clusters on the sphere."""

from collections.abc import Iterator

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState

BLOCK = 1 << 22
"""Cosines in memory at once."""


def scale_tokens_to_unit_length(state: SplitState) -> Array:
    """Scale tokens to unit length; a zero token stays zero."""
    rows = state.states.mantissa
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest == 0.0, 1.0, largest)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Array = rows / np.where(lengths == 0.0, 1.0, lengths)
    return found


def iter_cosine_blocks(tokens: Array) -> Iterator[Array]:
    """Iterate over blocks of rows of the cosine matrix."""
    size = max(1, BLOCK // len(tokens))
    for first in range(0, len(tokens), size):
        yield tokens[first : first + size] @ tokens.T
