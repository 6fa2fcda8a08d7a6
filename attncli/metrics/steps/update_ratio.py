import math

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import compute_log10_matrix_norm, frobenius_norm
from attncli.metrics import metric


@metric("1")
def update_ratio(before: SplitState, after: SplitState) -> float:
    """‖X' - X‖_F / ‖X‖_F: what the block adds, against what it is given.

    0: it adds nothing; with its skip, a block of a deep Pre-LN model adds less and less.
    """
    change = after.states - before.states
    if change.is_zero():
        return 0.0
    if before.states.is_zero():
        return math.nan
    size = compute_log10_matrix_norm(change, frobenius_norm) - compute_log10_matrix_norm(
        before.states, frobenius_norm
    )
    return float(10.0**size) if size < 300.0 else math.inf
