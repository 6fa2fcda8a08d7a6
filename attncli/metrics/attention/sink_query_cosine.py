from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._query_key_value_statistics import OperandStatistics

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="sinks")
def sink_query_cosine(sides: OperandStatistics) -> "Tensor":
    """Mean of cos(q_i, k_0) over the queries that see token 0.

    1: all queries point at it; 0: orthogonal. Beside `query_key_cosine`, the same of all keys.
    """
    return sides.first.compute_mean_cosine()
