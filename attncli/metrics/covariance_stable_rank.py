from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import singular_values
from attncli.metrics import metric


@metric("1")
def covariance_stable_rank(state: SplitState) -> float:
    """sr(X X^T) = ‖X X^T‖_F² / ‖X X^T‖_2²: `stable_rank` of the tokens' covariance, as "Mind the Gap" (2024) has it.

    1: one direction; min(tokens, width): all equally. Never above `stable_rank`, for it weighs energies and not lengths.
    """
    squares = singular_values(state.states.mantissa) ** 2
    return float(((squares / squares[0]) ** 2).sum())
