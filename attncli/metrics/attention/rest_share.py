from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="sinks")
def rest_share(summaries: MapStripRows) -> "Tensor":
    """Mean over queries of A_i0 + 1 - Σ_j A_ij: weight on token 0 and on a learned sink together.

    0: nothing; 1: the head is at rest. Where there is no learned sink it is the weight on token 0 alone.
    """
    return summaries.weights_on_first_token + (1.0 - summaries.row_sums)
