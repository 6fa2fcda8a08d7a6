from attncli.maths.matrices.low_rank_product import Factored
from attncli.metrics.weights import measures
from attncli.metrics.weights._products import stable_rank


@measures("qk", "dimensions")
def qk_stable_rank(product: Factored) -> float:
    """‖W_QK‖_F² / ‖W_QK‖_2²: how many directions carry the comparison; 1: a single one; d: all equally."""
    return stable_rank(product)
