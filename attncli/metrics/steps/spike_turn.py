import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric
from attncli.metrics.steps._unit_vector_distances import compute_unit_vector_distances


@metric("1")
def spike_turn(before: SplitState, after: SplitState) -> float:
    """1 - cos between the states before and after the block, of the token that is longest after it.

    A norm keeps directions: where this is near 0 from layer to layer, it hands the same vector on, whatever the length.
    """
    longest = int(np.linalg.norm(after.states.mantissa, axis=1).argmax())
    return float(compute_unit_vector_distances(before, after)[longest] ** 2 / 2.0)
