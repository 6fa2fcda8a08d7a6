import numpy as np

from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric


@metric("logit")
def qk_trace(qk: LowRankProduct) -> float:
    """tr W_QK, the sum of its eigenvalues: a token's mean logit with itself, before 1/√d, for independent features of variance 1.

    Positive: tokens prefer keys that look like themselves; negative: they turn from them.
    """
    return float(np.trace(qk.core_with_same_eigenvalues))
