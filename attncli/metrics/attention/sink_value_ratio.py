from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics._median import median
from attncli.metrics.attention._query_key_value_statistics import OperandStatistics

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="sinks")
def sink_value_ratio(sides: OperandStatistics) -> "Tensor":
    """‖v_0‖ over the median of ‖v_j‖: how much token 0 contributes to the queries that look at it.

    1: as much as the others; near 0: who looks there adds nothing, the head is at rest.
    """
    return sides.value_sizes[..., 0] / median(sides.value_sizes)
