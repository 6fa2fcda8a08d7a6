from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric
from attncli.metrics.weights._singular_value_metrics import product_frobenius_norm


@metric("logit")
def qk_frobenius(qk: LowRankProduct) -> float:
    """‖W_QK‖_F: the standard deviation of its logits, before 1/√d, for independent features of variance 1."""
    return product_frobenius_norm(qk)
