from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import ReceivedMass

if TYPE_CHECKING:
    from torch import Tensor


@metric("1")
def received_mass_min(columns: ReceivedMass) -> "Tensor":
    """Smallest column sum: what the least attended token receives from all queries.

    1 for every token: attention is uniform; 0: some token reaches nobody.
    """
    return columns.find_least_received_mass()
