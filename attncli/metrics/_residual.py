"""The relative residual that the residual metrics share."""

import math

from attncli.maths.matrices.norms import Norm, log10_norm
from attncli.maths.residuals.common_row_plus_deviation import SplitState


def log10_relative_residual(state: SplitState, norm: Norm) -> float:
    """log10 of ‖X - 1x̄^T‖ / ‖X‖; -inf where the residual is exactly zero."""
    if state.residual.is_zero():
        return -math.inf
    return log10_norm(state.residual, norm) - log10_norm(state.states, norm)
