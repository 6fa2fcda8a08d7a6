from attncli.maths.matrices.low_rank_product import Factored
from attncli.metrics.weights import measures
from attncli.metrics.weights._products import positive_share


@measures("ov", "share")
def ov_positive_share(product: Factored) -> float:
    """Share of the nonzero eigenvalues of W_OV with positive real part.

    1: it copies in every direction; 0: it writes the opposite of what it reads; random weights: about a half.
    """
    return positive_share(product)
