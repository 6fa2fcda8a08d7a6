"""The usual median: torch's own is the lower of two middle numbers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def median(values: "Tensor") -> "Tensor":
    """The median over the last axis: the mean of the two middle numbers where their count is even."""
    count = values.shape[-1]
    lower = values.median(dim=-1).values
    if count % 2:
        return lower
    upper: Tensor = values.kthvalue(count // 2 + 1, dim=-1).values
    return lower + (upper - lower) / 2.0
