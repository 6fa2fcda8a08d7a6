import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric


@metric("1")
def spike_ratio(state: SplitState) -> float:
    """Largest ‖x_i‖ over the median: how far one token stands out, such as a sink's massive activations.

    1: no token is longer than the others; hundreds: a spike that norms turn into one fixed direction.
    """
    sizes = np.linalg.norm(state.states.mantissa, axis=1)
    middle = float(np.median(sizes))
    return float(sizes.max()) / middle if middle > 0.0 else np.inf
