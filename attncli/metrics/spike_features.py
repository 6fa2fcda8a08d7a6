import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric


@metric("features")
def spike_features(state: SplitState) -> float:
    """(Σ x²)² / Σ x⁴ of the longest token: how many of its features carry it.

    1: one feature; the width: all alike; about a third of the width: normal numbers. Massive activations have few.
    """
    rows = state.states.mantissa
    token = rows[np.linalg.norm(rows, axis=1).argmax()]
    squares = (token / np.abs(token).max()) ** 2 if token.any() else np.ones(1)
    return float(squares.sum() ** 2 / (squares**2).sum())
