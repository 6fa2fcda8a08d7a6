from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric
from attncli.metrics.weights._singular_value_metrics import stable_rank


@metric("dimensions")
def qk_stable_rank(qk: LowRankProduct) -> float:
    """‖W_QK‖_F² / ‖W_QK‖_2²: how many directions carry the comparison; 1: a single one; d: all equally."""
    return stable_rank(qk)
