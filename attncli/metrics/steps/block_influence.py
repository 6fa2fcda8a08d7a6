from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import metric
from attncli.metrics.steps._unit_vector_distances import compute_unit_vector_distances


@metric("1")
def block_influence(before: SplitState, after: SplitState) -> float:
    """1 - cos between a token before and after the block, mean over the tokens (ShortGPT's BI score).

    0: the block turns nothing and could be left out; 1: nothing of the direction stays.
    """
    return float((compute_unit_vector_distances(before, after) ** 2 / 2.0).mean())
