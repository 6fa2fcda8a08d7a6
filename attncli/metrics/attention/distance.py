from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("tokens", needs=("same tokens",))
def distance(summaries: MapStripRows) -> "Tensor":
    """Mean over queries of Σ_j A_ij |i - j|: how far away a head looks.

    0: at the token itself. Uniform attention has (n - 1)/4 if it is causal, (n² - 1)/(3n) if not.
    """
    return summaries.weighted_distances
