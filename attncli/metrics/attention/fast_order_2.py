from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._strip_rows import StripRows
from attncli.metrics.attention._taylor import bound_logits, distance_from_kernel

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("logits",))
def fast_order_2(rows: StripRows) -> "Tensor":
    """Mean total variation between a row and that of FAST's kernel 1 + s + s²/2, s as in `fast_order_1`.

    Its largest weight is at most 5 times its least, so it stays near uniform attention; `linearisability` is without the scale.
    """
    scaled = bound_logits(rows)
    return distance_from_kernel(rows, 1.0 + scaled + scaled.square() / 2.0)
