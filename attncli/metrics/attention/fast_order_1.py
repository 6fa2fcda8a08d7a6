from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._strip_rows import StripRows
from attncli.metrics.attention._taylor import bound_logits, distance_from_kernel

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("logits",))
def fast_order_1(rows: StripRows) -> "Tensor":
    """Mean total variation between a row and that of FAST's kernel 1 + s; s = x / max(1, max |x|), x as in `linearisability`.

    After Gerami et al. 2024 (FAST), whose code divides queries and keys by their largest norms, so that |s| ≤ 1 and no
    weight is negative; here the row's own largest logit sets the scale, which any map tells (our own form).
    """
    return distance_from_kernel(rows, 1.0 + bound_logits(rows))
