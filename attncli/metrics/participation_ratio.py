from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import singular_values
from attncli.metrics import metric


@metric("dimensions")
def participation_ratio(state: SplitState) -> float:
    """(Σ s²)² / Σ s⁴ over the singular values s of X.

    1: one direction; min(tokens, width): all equally.
    """
    squares = singular_values(state.states.mantissa) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum())
