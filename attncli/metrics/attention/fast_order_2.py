from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.metrics.attention._taylor_softmax import (
    compute_distance_to_kernel_attention,
    scale_logits_into_unit_range,
)

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("logits",))
def fast_order_2(rows: MapStripRows) -> "Tensor":
    """Mean total variation between a row and that of FAST's kernel 1 + s + s²/2, s as in `fast_order_1`.

    Its largest weight is at most 5 times its least, so it stays near uniform attention; `linearisability` is without the scale.
    """
    scaled = scale_logits_into_unit_range(rows)
    return compute_distance_to_kernel_attention(rows, 1.0 + scaled + scaled.square() / 2.0)
