from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import singular_values
from attncli.metrics import metric


@metric("dimensions")
def stable_rank(state: SplitState) -> float:
    """‖X‖_F² / ‖X‖_2²: how many directions carry the tokens' energy.

    1: one direction; min(tokens, width): all equally.
    """
    squares = singular_values(state.states.mantissa) ** 2
    return float(squares.sum() / squares[0])
