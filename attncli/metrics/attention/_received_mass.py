"""The weight that each key receives from all queries."""

from math import inf
from typing import TYPE_CHECKING

from attncli.metrics.attention._map_strip_rows import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


class ReceivedMass:
    """Column sums of the maps of a layer, in float64."""

    def __init__(self, rows: MapStripRows) -> None:
        shape = (*rows.weights.shape[:2], rows.keys)
        self.received: Tensor = rows.weights.new_zeros(shape).double()
        """[batch, head, key]: Σ_i A_ij."""
        self.seen = self.received[:, :1].clone()
        """[batch or 1, 1, key]: how many queries see the key."""

    def add(self, rows: MapStripRows) -> None:
        part = slice(rows.first_key, rows.first_key + rows.weights.shape[-1])
        received, seen = rows.received()
        self.received[..., part] += received
        self.seen[..., part] += seen

    def share(self) -> "Tensor":
        """[batch, head, key]: the mean weight from the queries that see the key; 0 where none does."""
        return self.received / self.seen.clamp_min(1)

    def least(self) -> "Tensor":
        """[batch, head]: the smallest sum of a key that is seen at all."""
        return self.received.masked_fill(self.seen == 0, inf).amin(dim=-1)
