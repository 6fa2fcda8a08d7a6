from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_energy import ColumnEnergy

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="lazy", signed=True)
def largest_column(energy: ColumnEnergy) -> "Tensor":
    """max_j Σ_i A_ij² / ‖A‖_F²: how much of the map's mass lies in its largest column.

    1: a single column, whatever the query; 1/n: all alike. A rank-one map need not have one: uniform attention has none.
    """
    return energy.squares.amax(dim=-1) / energy.squares.sum(dim=-1)
