from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("same tokens",), signed=True)
def self_attention(summaries: MapStripRows) -> "Tensor":
    """Mean of A_ii: the weight of a query on its own token.

    0: nothing; 1: all of it.
    """
    return summaries.read_weights_at_offset(0)
