from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="roles", needs=("same tokens", "repeats"), signed=True)
def induction(summaries: MapStripRows) -> "Tensor":
    """Mean of A_{i,i-S+1} over the second half of S random tokens repeated twice.

    1: looks at the token that came after the earlier copy of its own, which is what comes next.
    """
    assert summaries.period is not None
    return summaries.mask_rows_before_repeated_token(
        summaries.read_weights_at_offset(summaries.period - 1)
    )
