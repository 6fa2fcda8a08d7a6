from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import metric
from attncli.metrics.weights._singular_value_metrics import effective_rank


@metric("dimensions")
def ov_effective_rank(ov: LowRankProduct) -> float:
    """exp of the entropy of s / Σ s over the singular values s of W_OV (Roy & Vetterli 2007); from 1 to d."""
    return effective_rank(ov)
