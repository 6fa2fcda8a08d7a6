from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="roles", needs=("same tokens", "repeats"), signed=True)
def duplicate_token(summaries: MapStripRows) -> "Tensor":
    """Mean of A_{i,i-S} over the second half of S random tokens repeated twice.

    1: looks at the earlier copy of its token alone; 1/2: at both copies alike.
    """
    assert summaries.period is not None
    return summaries.mask_rows_before_repeated_token(
        summaries.read_weights_at_offset(summaries.period)
    )
