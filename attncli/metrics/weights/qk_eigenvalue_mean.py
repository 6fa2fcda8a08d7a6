import numpy as np

from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric


@metric("logit")
def qk_eigenvalue_mean(qk: LowRankProduct) -> float:
    """tr W_QK / D: the mean of all D eigenvalues, of which at most d are not zero."""
    return float(np.trace(qk.core_with_same_eigenvalues)) / qk.matrix_size
