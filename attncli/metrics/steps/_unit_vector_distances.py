"""The angle by which each token turns."""

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics._unit_tokens import scale_tokens_to_unit_length


def compute_unit_vector_distances(before: SplitState, after: SplitState) -> Array:
    """[token]: ‖u - v‖ of the unit vectors before and after, which keeps small angles' digits; nan for a zero token."""
    first, second = scale_tokens_to_unit_length(before), scale_tokens_to_unit_length(after)
    found: Array = np.linalg.norm(second - first, axis=1)
    return np.where(first.any(axis=1) & second.any(axis=1), found, np.nan)
