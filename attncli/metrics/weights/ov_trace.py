import numpy as np

from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric


@metric("gain")
def ov_trace(ov: LowRankProduct) -> float:
    """tr W_OV, the sum of its eigenvalues: positive where a head copies what it reads, negative where it subtracts it."""
    return float(np.trace(ov.core_with_same_eigenvalues))
