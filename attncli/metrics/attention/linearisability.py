from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.metrics.attention._taylor_softmax import compute_distance_to_kernel_attention

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("logits",))
def linearisability(rows: MapStripRows) -> "Tensor":
    """Mean total variation between a row and that of the kernel 1 + x + x²/2, x the logits less their row mean.

    0: attention that is linear in features of queries and keys does the same; 1: it has nothing in common (our own form).
    """
    return compute_distance_to_kernel_attention(
        rows, 1.0 + rows.logits + rows.logits.square() / 2.0
    )
