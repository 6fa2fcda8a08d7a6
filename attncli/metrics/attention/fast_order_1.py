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
def fast_order_1(rows: MapStripRows) -> "Tensor":
    """Mean total variation between a row and that of FAST's kernel 1 + s; s = x / max(1, max |x|), x as in `linearisability`.

    After Gerami et al. 2024 (FAST), whose code divides queries and keys by their largest norms, so that |s| ≤ 1 and no
    weight is negative; here the row's own largest logit sets the scale, which any map tells (our own form).
    """
    return compute_distance_to_kernel_attention(rows, 1.0 + scale_logits_into_unit_range(rows))
