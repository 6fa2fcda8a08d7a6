import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric
from attncli.metrics._unit_tokens import BLOCK, scale_tokens_to_unit_length

EPSILON = 0.1
"""Distance of unit tokens up to which two belong together."""


@metric("clusters")
def clusters(state: SplitState) -> float:
    """Groups of unit tokens that chains of steps of at most 0.1 connect (after Geshkovski et al. 2023).

    1: all tokens have one direction; as many as tokens: no two are close. Constant over layers: a metastable plateau.
    """
    tokens = scale_tokens_to_unit_length(state)
    near = 1.0 - EPSILON**2 / 2.0
    left = np.ones(len(tokens), dtype=bool)
    count, size = 0, max(1, BLOCK // len(tokens))
    while left.any():
        count += 1
        edge = np.flatnonzero(left)[:1]
        left[edge] = False
        while len(edge):
            now, edge = edge[:size], edge[size:]
            reached = np.flatnonzero((tokens[now] @ tokens.T >= near).any(axis=0) & left)
            left[reached] = False
            edge = np.concatenate([edge, reached])
    return float(count)
