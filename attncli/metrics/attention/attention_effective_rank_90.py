from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._gram import GramMatrix

if TYPE_CHECKING:
    from torch import Tensor

ROUNDING = 1e-6
"""Of ‖A‖_F²: a sum that is below the 90 % by no more than float32 leaves has reached them."""


@metric("dimensions", group="lazy", signed=True)
def attention_effective_rank_90(gram: GramMatrix) -> "Tensor":
    """Least k with Σ_{i≤k} σ_i² ≥ 0.9 Σ σ² over the singular values of A: the approximate rank of lazy layers.

    1: rank one nearly is the map (Sanyal et al. 2024 call layers of such heads lazy); 0.9 n: a permutation.
    """
    reached = gram.energies().cumsum(dim=-1)
    threshold = (0.9 - ROUNDING) * reached[..., -1:]
    return (reached < threshold).sum(dim=-1).double() + 1.0
