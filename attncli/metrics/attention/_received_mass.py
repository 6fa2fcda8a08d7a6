"""The weight that each key receives from all queries."""

from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class ReceivedMass(NamedTuple):
    """Column sums of the maps of a layer, in float64."""

    received: "Tensor"
    """[batch, head, key]: Σ_i A_ij."""
    seen: "Tensor"
    """[batch or 1, 1, key]: how many queries see the key."""

    def share(self) -> "Tensor":
        """[batch, head, key]: the mean weight from the queries that see the key; 0 where none does."""
        return self.received / self.seen.clamp_min(1)

    def least(self) -> "Tensor":
        """[batch, head]: the smallest sum of a key that is seen at all."""
        return self.received.masked_fill(self.seen == 0, inf).amin(dim=-1)
