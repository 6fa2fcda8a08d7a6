"""Sums over the columns of a map, the weight that each key receives, and over its diagonals, the weight by distance."""

from math import inf
from typing import TYPE_CHECKING

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


class ReceivedMass:
    """Column sums of the maps of a layer, in float64."""

    def __init__(self, rows: MapStripRows) -> None:
        shape = (*rows.weights.shape[:2], rows.keys)
        self.mass: Tensor = rows.weights.new_zeros(shape).double()
        """[batch, head, key]: Σ_i A_ij."""
        self.queries = self.mass[:, :1].clone()
        """[batch or 1, 1, key]: how many queries see the key."""

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        part = slice(rows.first_key, rows.first_key + rows.weights.shape[-1])
        received, seen = rows.sum_received_mass()
        self.mass[..., part] += received
        self.queries[..., part] += seen

    def compute_mean_received_weight(self) -> "Tensor":
        """[batch, head, key]: the mean weight from the queries that see the key; 0 where none does."""
        return self.mass / self.queries.clamp_min(1)

    def find_least_received_mass(self) -> "Tensor":
        """[batch, head]: the smallest sum of a key that is seen at all."""
        return self.mass.masked_fill(self.queries == 0, inf).amin(dim=-1)


class Offsets:
    """Sums over the diagonals i - j = -(keys - 1) … queries - 1, in float64."""

    def __init__(self, rows: MapStripRows) -> None:
        shape = (*rows.weights.shape[:2], rows.queries + rows.keys - 1)
        self.weights: Tensor = rows.weights.new_zeros(shape).double()
        """[batch, head, offset]: Σ A_{i, i - r} over the visible pairs."""
        self.pairs = self.weights[:, :1].clone()
        """[batch or 1, 1, offset]: how many there are."""
        self.squares = self.weights[..., 0].clone()
        """[batch, head]: Σ A_ij² over the whole map."""
        self.zero = rows.keys - 1
        """The index of offset 0."""

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        weights, pairs, first = rows.sum_weights_over_diagonals()
        part = slice(first + self.zero, first + self.zero + weights.shape[-1])
        self.weights[..., part] += weights
        self.pairs[..., part] += pairs
        self.squares += rows.sums_of_squares.double().sum(dim=-1)
