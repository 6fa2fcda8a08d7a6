from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric
from attncli.metrics.weights._singular_value_metrics import product_frobenius_norm


@metric("gain")
def ov_frobenius(ov: LowRankProduct) -> float:
    """‖W_OV‖_F: the root mean square length of what it writes from a token of independent features of variance 1."""
    return product_frobenius_norm(ov)
