"""Sums of squared weights that each key receives."""

from typing import TYPE_CHECKING

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


class ColumnEnergy:
    """Sums over the columns of the maps of one attention, in float64."""

    def __init__(self, rows: MapStripRows) -> None:
        self.squares: Tensor = rows.weights.new_zeros((*rows.weights.shape[:2], rows.keys)).double()
        """[batch, head, key]: Σ_i A_ij²."""

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        part = slice(rows.first_key, rows.first_key + rows.weights.shape[-1])
        self.squares[..., part] += rows.column_sums_of_squares
