from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("nats", take="min", enough=True)
def min_entropy(summaries: MapStripRows) -> "Tensor":
    """Least entropy of a query, among those that see at least half as many keys as the one that sees the most.

    0: a query looks at one key. Queries that see few keys could not spread; of several texts the least.
    """
    return summaries.entropy
