import math

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import (
    SplitState,
    normalise_features_of_tokens,
)
from attncli.maths.matrices.matrix_norms import compute_log10_matrix_norm, frobenius_norm
from attncli.metrics import metric


@metric("log10")
def log10_token_cosine_gap(state: SplitState) -> float:
    """log10 of 1 - cos, cos the mean cosine between two different tokens.

    With unit rows u_i, 1 - cos = Σ_i ‖u_i - ū‖² / (n - 1), which needs no subtraction from 1 (our own form).
    log10 2 at most for two opposite tokens; -∞: all tokens point the same way.
    """
    if state.tokens < 2 or state.residual_to_token_mean.is_zero():
        return -math.inf
    directions = normalise_features_of_tokens(state, epsilon=0.0, centre=False)
    width = directions.common.mantissa.size
    square = 2.0 * compute_log10_matrix_norm(directions.residual_to_token_mean, frobenius_norm)
    return square - math.log10(width * (state.tokens - 1))
