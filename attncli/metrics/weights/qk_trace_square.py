import numpy as np

from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric


@metric("logit²")
def qk_trace_square(qk: LowRankProduct) -> float:
    """tr W_QK², the sum of its squared eigenvalues; negative where imaginary parts outweigh real ones."""
    return float(np.sum(qk.core_with_same_eigenvalues * qk.core_with_same_eigenvalues.T))
