import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric
from attncli.metrics.steps._unit_vector_distances import compute_unit_vector_distances


@metric("1")
def angular_distance(before: SplitState, after: SplitState) -> float:
    """Angle between a token before and after the blocks, over π, mean over the tokens (after Gromov et al. 2024).

    0: the same direction; 0.5: orthogonal; 1: opposite.
    """
    half = np.minimum(compute_unit_vector_distances(before, after) / 2.0, 1.0)
    return float((2.0 * np.arcsin(half) / np.pi).mean())
