from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import Offsets

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 8


@metric("1", group="roles", needs=("same tokens",), axis="offset")
def offset_profile(offsets: Offsets) -> "Tensor":
    """O_r = mean of A_{i,i-r} over the pairs that are visible, for r = 0 … 8.

    A head that looks by distance alone shows here where to.
    """
    nearby = slice(offsets.zero, offsets.zero + LARGEST + 1)
    return offsets.weights[..., nearby] / offsets.pairs[..., nearby].clamp_min(1)
