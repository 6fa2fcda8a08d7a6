import numpy as np

from attncli.maths.matrices.low_rank_product import Factored
from attncli.metrics.weights import measures


@measures("qk", "logit²")
def qk_eigenvalue_variance(product: Factored) -> float:
    """tr W_QK² / D - (tr W_QK / D)²: the variance of all D eigenvalues; negative where imaginary parts outweigh real ones.

    A small variance around a mean that is not zero localises attention (Bao, Hataya & Karakida, arXiv 2402.02098).
    """
    mean = np.trace(product.core) / product.wide
    return float(np.sum(product.core * product.core.T) / product.wide - mean**2)
