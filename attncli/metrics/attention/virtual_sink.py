from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("learned sink",))
def virtual_sink(summaries: MapStripRows) -> "Tensor":
    """Mean of 1 - Σ_j A_ij: the weight that a learned sink logit takes.

    0: nothing; 1: all of it. Does not apply where rows sum to 1.
    """
    return 1.0 - summaries.row_sums
