from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import Offsets

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="roles", needs=("same tokens",))
def offset_share(offsets: Offsets) -> "Tensor":
    """Share of Σ A_ij² that is left when each weight is replaced by the mean of its diagonal.

    1: where a head looks depends on the distance alone, not on the tokens. On random tokens (our own measure).
    """
    even = (offsets.weights.square() / offsets.pairs.clamp_min(1)).sum(dim=-1)
    return even / offsets.squares
