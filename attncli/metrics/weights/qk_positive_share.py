from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric
from attncli.metrics.weights._singular_value_metrics import compute_positive_eigenvalue_share


@metric("share")
def qk_positive_share(qk: LowRankProduct) -> float:
    """Share of the nonzero eigenvalues of W_QK with positive real part.

    1: every direction attends to itself; 0: every one turns from itself; random weights: about a half.
    """
    return compute_positive_eigenvalue_share(qk)
