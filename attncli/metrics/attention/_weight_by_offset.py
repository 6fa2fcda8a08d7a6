"""Sums over each diagonal of a map: the weight by distance from query to key."""

from typing import TYPE_CHECKING

from attncli.metrics.attention._map_strip_rows import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


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

    def add_map_rows(self, rows: MapStripRows) -> None:
        weights, pairs, first = rows.sum_weights_over_diagonals()
        part = slice(first + self.zero, first + self.zero + weights.shape[-1])
        self.weights[..., part] += weights
        self.pairs[..., part] += pairs
        self.squares += rows.sums_of_squares.double().sum(dim=-1)
