from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import composite_norm, compute_log10_matrix_norm
from attncli.metrics import metric


@metric("log10")
def log10_residual_norm(state: SplitState) -> float:
    """log10 of ‖X - 1x̄^T‖ itself, not divided by ‖X‖, in the norm √(‖·‖_1 ‖·‖_∞): what the theorem bounds.

    -∞: all tokens are the same vector.
    """
    return compute_log10_matrix_norm(state.residual_to_token_mean, composite_norm)
