from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._energy_rank import EnergyRank

if TYPE_CHECKING:
    from torch import Tensor


@metric("dimensions", group="lazy", signed=True)
def attention_effective_rank_90(gram: EnergyRank) -> "Tensor":
    """Least k with Σ_{i≤k} σ_i² ≥ 0.9 Σ σ² over the singular values of A: the approximate rank of lazy layers.

    1: rank one nearly is the map (Sanyal et al. 2024 call layers of such heads lazy); 0.9 n: a permutation.
    """
    return gram.count_leading_singular_values()
