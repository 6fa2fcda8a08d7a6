"""The block of a map in which the second half of the queries looks at the first half of the keys.

Its rank needs A_b^T A_b alone, a block of few columns where keys are few. Where they are many, the block times as many
random columns has the same rank, up to their number.
"""

from typing import TYPE_CHECKING

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor

COLUMNS = 256
SEED = 0

LEAST = 1e-4
"""Of the largest singular value; float32 maps have less than that of rounding."""


class PastBlock:
    """Sums of one attention, in float64."""

    def __init__(self, rows: MapStripRows) -> None:
        import torch

        self.first, self.half = rows.queries // 2, rows.keys // 2
        size = min(self.half, COLUMNS)
        if self.half <= COLUMNS:
            drawn = torch.eye(self.half, dtype=torch.float64)
        else:
            generator = torch.Generator().manual_seed(SEED)
            drawn = torch.randn(self.half, size, generator=generator, dtype=torch.float64)
        self.columns = drawn.to(rows.weights.device)
        self.sums: Tensor = rows.weights.new_zeros((*rows.weights.shape[:2], size, size)).double()

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        late = max(0, self.first - rows.first_query)
        keys = slice(rows.first_key, min(self.half, rows.first_key + rows.weights.shape[-1]))
        if late >= rows.row_count or keys.stop <= keys.start:
            return
        weights = rows.weights[..., late:, : keys.stop - keys.start]
        seen = (weights @ self.columns[keys].to(weights.dtype)).double()
        self.sums += seen.transpose(-2, -1) @ seen

    def compute_numerical_rank(self) -> "Tensor":
        """[batch, head]"""
        import torch

        squares = torch.linalg.eigvalsh(self.sums)
        most = (
            squares[..., -1:] if squares.shape[-1] else squares.new_zeros((*squares.shape[:2], 1))
        )
        found: Tensor = ((squares > LEAST**2 * most) & (squares > 0.0)).sum(dim=-1).double()
        return found
