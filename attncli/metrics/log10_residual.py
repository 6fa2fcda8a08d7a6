from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import composite_norm, compute_log10_relative_matrix_norm
from attncli.metrics import metric


@metric("log10")
def log10_residual(state: SplitState) -> float:
    """log10 r, r = ‖X - 1x̄^T‖ / ‖X‖ in the norm √(‖·‖_1 ‖·‖_∞), x̄ the token mean: the published curve.

    0: tokens share no common row; -∞: all tokens are the same vector (rank 1). Dong, Cordonnier & Loukas (2021).
    """
    return compute_log10_relative_matrix_norm(
        state.residual_to_token_mean, state.states, composite_norm
    )
