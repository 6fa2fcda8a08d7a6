from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics._median import median
from attncli.metrics.attention._query_key_value_statistics import OperandStatistics

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="sinks")
def sink_key_ratio(sides: OperandStatistics) -> "Tensor":
    """‖k_0‖ over the median of ‖k_j‖: the length of token 0's key, as the scores have it.

    1: as long as the others. A sink needs no long key: direction does it (`sink_query_cosine`).
    """
    return sides.key_sizes[..., 0] / median(sides.key_sizes)
