from math import nan

from attncli.metrics import metric
from attncli.metrics.activations._activation_state import ActivationState


@metric("1")
def max_activation_ratio(state: ActivationState) -> float:
    """Largest |x| over the median of |x|.

    A few for normal numbers; 1000 and more where an activation is massive.
    """
    return state.largest_magnitude / state.median_magnitude if state.median_magnitude else nan
