from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="roles", needs=("same tokens",), signed=True)
def previous_token(summaries: MapStripRows) -> "Tensor":
    """Mean of A_{i,i-1} over the queries that see the token before them.

    1: a previous-token head. On random tokens repeated twice, so that it is the place that is looked at.
    """
    return summaries.read_weights_at_offset(1)
