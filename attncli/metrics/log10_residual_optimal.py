"""The residual to the nearest constant-row matrix in the composite norm: by linear programmes, with proof of the minimum."""

import math

from attncli.errors import LimitError, format_count
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array, ScaledArray
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import composite_norm, compute_log10_matrix_norm
from attncli.metrics import metric
from attncli.tolerances import OPTIMAL_RESIDUAL

MOST_NUMBERS = 2**17
"""Of a state: 128 tokens of width 768, which take minutes, but not many more."""


@metric("log10")
def log10_residual_optimal(state: SplitState) -> float:
    """log10 r as in log10_residual, but from the centre x that minimises ‖X - 1x^T‖ instead of the token mean.

    At most log10(2(1 - 1/n)) below log10_residual (our own bound). The minimum is that of linear programmes and proved by
    their duals.
    """
    if state.residual_to_token_mean.is_zero():
        return -math.inf
    residual = state.residual_to_token_mean.mantissa
    nearest = residual - find_row_nearest_to_tokens(residual)
    return compute_log10_matrix_norm(
        ScaledArray(nearest, state.residual_to_token_mean.exponent), composite_norm
    ) - compute_log10_matrix_norm(state.states, composite_norm)


def find_row_nearest_to_tokens(matrix: Array) -> Array:
    """The row x [feature] that minimises ‖M - 1x^T‖_{1,∞}."""
    from attncli.maths.matrices.nearest_constant_row import (  # scipy's optimizers: 0.4 s to import, needed here alone
        find_nearest_constant_row,
    )

    tokens, width = matrix.shape
    advice = "measure fewer tokens, or leave log10_residual_optimal out"
    if matrix.size > MOST_NUMBERS:
        raise LimitError(
            f"log10_residual_optimal of {format_count(tokens, 'token')} of width {width:,} is a linear programme that "
            f"takes hours: {advice}."
        )
    found = find_nearest_constant_row(matrix)
    if not found.gap <= OPTIMAL_RESIDUAL.tolerance_for_dtype():
        raise LimitError(
            f"log10_residual_optimal is only known to {found.gap:.1g} of itself: {advice}."
        )
    return found.centre
