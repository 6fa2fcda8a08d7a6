import math

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import composite_norm, compute_log10_relative_matrix_norm
from attncli.metrics import metric


@metric("1")
def residual(state: SplitState) -> float:
    """r = ‖X - 1x̄^T‖ / ‖X‖ in the norm √(‖·‖_1 ‖·‖_∞), x̄ the token mean, as the published figure draws it.

    `log10_residual` without the logarithm, for a linear axis: 0 below the smallest float. Dong, Cordonnier & Loukas (2021).
    """
    exponent = compute_log10_relative_matrix_norm(
        state.residual_to_token_mean, state.states, composite_norm
    )
    return exponent if math.isnan(exponent) else 10.0 ** max(exponent, -400.0)
