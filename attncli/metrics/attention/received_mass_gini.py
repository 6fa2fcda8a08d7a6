from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import ReceivedMass

if TYPE_CHECKING:
    from torch import Tensor


@metric("1")
def received_mass_gini(columns: ReceivedMass) -> "Tensor":
    """Gini coefficient of the column sums.

    0: every token receives the same; near 1: one token receives all.
    """
    ordered = columns.mass.sort(dim=-1).values
    count = ordered.shape[-1]
    ranks = ordered.new_ones(count).cumsum(dim=0)
    return 2.0 * (ranks * ordered).sum(dim=-1) / (count * ordered.sum(dim=-1)) - (count + 1) / count
