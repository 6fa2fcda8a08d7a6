from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric
from attncli.metrics.weights._singular_value_metrics import stable_rank


@metric("dimensions")
def ov_stable_rank(ov: LowRankProduct) -> float:
    """‖W_OV‖_F² / ‖W_OV‖_2²: how many directions carry what is moved; 1: a single one; d: all equally."""
    return stable_rank(ov)
