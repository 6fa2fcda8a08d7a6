from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._strip_rows import StripRows

if TYPE_CHECKING:
    from torch import Tensor

SMALL = 1e-3


@metric("1")
def small_share(rows: StripRows) -> "Tensor":
    """Mean share of the visible keys that get less than 1e-3 of a query.

    0: none; near 1: nearly all keys could be left out.
    """
    small = (rows.weights < SMALL).sum(dim=-1)
    hidden = rows.weights.shape[-1] - rows.seen if rows.visible is not None else 0
    return (small - hidden) / rows.seen
