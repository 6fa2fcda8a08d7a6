from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("logits",))
def logit_spread(rows: MapStripRows) -> "Tensor":
    """Mean over queries of the standard deviation of the logits, over the visible keys.

    0: uniform attention. Up to about 1 a polynomial kernel can stand in for the softmax.
    """
    size: Tensor = rows.logits.norm(dim=-1)
    return size / rows.keys_per_query.sqrt()
