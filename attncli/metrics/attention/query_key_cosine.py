from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._query_key_value_statistics import OperandStatistics

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="sinks")
def query_key_cosine(sides: OperandStatistics) -> "Tensor":
    """Mean over queries of the mean of cos(q_i, k_j) over the keys that they see.

    What `sink_query_cosine` would be if token 0 were a key like the others.
    """
    return sides.every.compute_mean_cosine()
