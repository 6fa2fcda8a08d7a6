from typing import TYPE_CHECKING

from attncli.metrics.attention import measure
from attncli.metrics.attention._received import ReceivedMass

if TYPE_CHECKING:
    from torch import Tensor


@measure("1", of="columns")
def received_mass_min(columns: ReceivedMass) -> "Tensor":
    """Smallest column sum: what the least attended token receives from all queries.

    1 for every token: attention is uniform; 0: some token reaches nobody.
    """
    return columns.least()
