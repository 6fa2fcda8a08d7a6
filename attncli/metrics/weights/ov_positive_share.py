from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric
from attncli.metrics.weights._singular_value_metrics import compute_positive_eigenvalue_share


@metric("share")
def ov_positive_share(ov: LowRankProduct) -> float:
    """Share of the nonzero eigenvalues of W_OV with positive real part.

    1: it copies in every direction; 0: it writes the opposite of what it reads; random weights: about a half.
    """
    return compute_positive_eigenvalue_share(ov)
