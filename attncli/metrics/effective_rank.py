import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import singular_values
from attncli.metrics import metric


@metric("dimensions")
def effective_rank(state: SplitState) -> float:
    """exp of the entropy of s / Σ s over the singular values s of X (Roy & Vetterli 2007).

    1: one direction; min(tokens, width): all equally. Digits below 1e-12 of the leading direction are rounding.
    """
    values = singular_values(state.states.mantissa)
    shares = values[values > 0.0] / values.sum()
    return float(np.exp(0.0 - (shares * np.log(shares)).sum()))
