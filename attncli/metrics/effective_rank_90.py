import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import singular_values
from attncli.metrics import metric


@metric("dimensions")
def effective_rank_90(state: SplitState) -> float:
    """Fewest directions that hold 90 % of the energy: least k with Σ_{i≤k} σ_i² ≥ 0.9 Σ σ².

    1: one direction nearly is the state; its share of min(tokens, width) says how lazy the layer is.
    """
    energy = np.cumsum(singular_values(state.states.mantissa) ** 2)
    return float(np.searchsorted(energy, 0.9 * energy[-1] * (1.0 - 1e-12)) + 1)
