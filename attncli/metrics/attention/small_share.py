from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1")
def small_share(summaries: MapStripRows) -> "Tensor":
    """Mean share of the visible keys that get less than 1e-3 of a query's weight.

    0: none; near 1: nearly all keys could be left out.
    """
    return summaries.small_weight_counts / summaries.keys_per_query
