import numpy as np

from attncli.maths.matrices.low_rank_product import Factored
from attncli.metrics.weights import measures


@measures("qk", "logit²")
def qk_trace_square(product: Factored) -> float:
    """tr W_QK², the sum of its squared eigenvalues; negative where imaginary parts outweigh real ones."""
    return float(np.sum(product.core * product.core.T))
