from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1")
def largest_weight(summaries: MapStripRows) -> "Tensor":
    """Mean over queries of max_j A_ij.

    1: each looks at one key; 1/n_i: uniform. With bounded logits it must fall as 1/n on long texts (dispersion).
    """
    return summaries.largest_weights
