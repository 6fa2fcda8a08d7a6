import math

import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric


@metric("log10")
def log10_variance(state: SplitState) -> float:
    """log10 of the variance of the state's entries over tokens and features.

    In Pre-LN models it grows with depth, and the later blocks add ever less to it ("curse of depth"); -∞: all are equal.
    """
    common, varying = (part.map_linearly(lambda each: each - each.mean()) for part in state.parts)
    # apart until here: a uniform common row takes no digits from what varies
    rest = common + varying
    square = float(np.mean(rest.mantissa**2))
    if square == 0.0:
        return -math.inf
    return math.log10(square) + 2.0 * rest.exponent * math.log10(2.0)
