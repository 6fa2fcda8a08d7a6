from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="memory", signed=True)
def row_size(summaries: MapStripRows) -> "Tensor":
    """Mean over queries of Σ_j |A_ij|: the total absolute weight that a query puts on the values.

    1: any softmax without a learned sink.
    """
    return summaries.sums_of_absolute_weights
