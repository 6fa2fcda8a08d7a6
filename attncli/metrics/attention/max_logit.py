from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("scores",), take="max")
def max_logit(summaries: MapStripRows) -> "Tensor":
    """Largest score of a query and a key that it sees, as it enters the softmax; over several texts the maximum.

    After scale, rotary, QK norm, softcap and position bias; a mask's numbers are none. Below about 30 in healthy models;
    past 100 training is known to become unstable (Kimi K2, arXiv 2507.20534).
    """
    return summaries.largest_scores
