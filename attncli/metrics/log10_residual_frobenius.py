from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import compute_log10_relative_matrix_norm, frobenius_norm
from attncli.metrics import metric


@metric("log10")
def log10_residual_frobenius(state: SplitState) -> float:
    """log10 of ‖X - 1x̄^T‖_F / ‖X‖_F; the token mean x̄ is the centre that minimises it.

    0: tokens share no common row; -∞: all tokens are the same vector.
    """
    return compute_log10_relative_matrix_norm(
        state.residual_to_token_mean, state.states, frobenius_norm
    )
