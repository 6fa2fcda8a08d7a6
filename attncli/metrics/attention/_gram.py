"""A^T A of maps whose rows come in strips: for metrics of all singular values, not the largest alone."""

from typing import TYPE_CHECKING

from attncli.metrics.attention._map_strip_rows import MapStripRows
from attncli.resource_limits import require_memory

if TYPE_CHECKING:
    from torch import Tensor


class GramMatrix:
    """Sums of one attention; these grow with the square of the keys, so their memory is checked first."""

    def __init__(self, rows: MapStripRows) -> None:
        lead, keys = rows.weights.shape[:2], rows.keys
        size = lead[0] * lead[1] * keys**2 * rows.weights.element_size()
        what = f"the rank of {lead[0] * lead[1]} maps over {keys} keys"
        require_memory(size, what, "cut the text with `tokens`")
        self.sums = rows.weights.new_zeros((*lead, keys, keys))

    def add(self, rows: MapStripRows) -> None:
        part = slice(rows.first_key, rows.first_key + rows.weights.shape[-1])
        self.sums[..., part, part] += rows.weights.transpose(-2, -1) @ rows.weights

    def energies(self) -> "Tensor":
        """[batch, head, place]: σ² of each map, falling; one map in float64 at a time."""
        import torch

        maps = [torch.linalg.eigvalsh(each.double()).flip(-1) for each in self.sums.flatten(0, 1)]
        found: Tensor = torch.stack(maps).clamp_min(0.0)
        return found.view(self.sums.shape[:-1])
