from attncli.maths.matrices.low_rank_product import Factored
from attncli.metrics.weights import measures
from attncli.metrics.weights._products import frobenius


@measures("ov", "gain")
def ov_frobenius(product: Factored) -> float:
    """‖W_OV‖_F: the root mean square length of what it writes from a token of independent features of variance 1."""
    return frobenius(product)
