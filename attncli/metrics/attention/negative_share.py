from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="memory", signed=True)
def negative_share(summaries: MapStripRows) -> "Tensor":
    """Mean over queries of Σ_j max(-A_ij, 0) / Σ_j |A_ij|: how much a head subtracts rather than adds.

    0: any softmax; 1/2: as much away as it adds.
    """
    return (summaries.sums_of_negative_weights / summaries.sums_of_absolute_weights).abs()
