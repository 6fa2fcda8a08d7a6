from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import ReceivedMass

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", signed=True)
def sink(columns: ReceivedMass) -> "Tensor":
    """Mean weight on token 0 from the queries that see it.

    A head sinks above 0.3. Uniform causal attention has H_n / n: 0.074 over 64 tokens.
    """
    return columns.compute_mean_received_weight()[..., 0]
