from typing import TYPE_CHECKING

from attncli.metrics.attention import measure
from attncli.metrics.attention._strip_rows import Rows
from attncli.metrics.attention._taylor import bounded, distance_from

if TYPE_CHECKING:
    from torch import Tensor


@measure("1", needs=("logits",))
def fast_order_2(rows: Rows) -> "Tensor":
    """Mean total variation between a row and that of FAST's kernel 1 + s + s²/2, s as in `fast_order_1`.

    Its largest weight is at most 5 times its least, so it stays near uniform attention; `linearisability` is without the scale.
    """
    scaled = bounded(rows)
    return distance_from(rows, 1.0 + scaled + scaled.square() / 2.0)
