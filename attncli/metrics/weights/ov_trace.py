import numpy as np

from attncli.maths.matrices.low_rank_product import Factored
from attncli.metrics.weights import measures


@measures("ov", "gain")
def ov_trace(product: Factored) -> float:
    """tr W_OV, the sum of its eigenvalues: positive where a head copies what it reads, negative where it takes it away."""
    return float(np.trace(product.core))
