from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import ReceivedMass

if TYPE_CHECKING:
    from torch import Tensor

LOW = 0.1


@metric("1")
def received_mass_low(columns: ReceivedMass) -> "Tensor":
    """Share of the tokens that receive less than 0.1 from all queries together.

    0: all are looked at; near 1: nearly all are explained away by a few.
    """
    return (columns.mass < LOW).double().mean(dim=-1)
