import math

import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric
from attncli.metrics._unit_tokens import iter_cosine_blocks, scale_tokens_to_unit_length

BETA = 1.0


@metric("1")
def cluster_energy(state: SplitState) -> float:
    """Interaction energy Σ_ij exp(β⟨x_i, x_j⟩) / (2βn²) of the unit tokens at β = 1 (Geshkovski et al. 2023).

    e/2 = 1.359: one cluster; about 1/2: orthogonal tokens. Self-attention alone makes it rise.
    """
    tokens = scale_tokens_to_unit_length(state)
    total = math.fsum(float(np.exp(BETA * block).sum()) for block in iter_cosine_blocks(tokens))
    return total / (2.0 * BETA * len(tokens) ** 2)
