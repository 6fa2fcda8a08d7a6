import numpy as np

from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric


@metric("logit²")
def qk_eigenvalue_variance(qk: LowRankProduct) -> float:
    """tr W_QK² / D - (tr W_QK / D)²: the variance of all D eigenvalues; negative where imaginary parts outweigh real ones.

    A small variance around a mean that is not zero localises attention (Bao, Hataya & Karakida, arXiv 2402.02098).
    """
    mean = np.trace(qk.core_with_same_eigenvalues) / qk.matrix_size
    return float(
        np.sum(qk.core_with_same_eigenvalues * qk.core_with_same_eigenvalues.T) / qk.matrix_size
        - mean**2
    )
