from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import ReceivedMass

if TYPE_CHECKING:
    from torch import Tensor


@metric("1")
def sink_max(columns: ReceivedMass) -> "Tensor":
    """Largest mean weight on one token, among the tokens that enough queries see.

    Enough is half of the most: of causal attention that leaves the first half of the tokens, of bidirectional attention
    all. Finds sinks that are not the first token, such as a separator.
    """
    enough = 2 * columns.queries >= columns.queries.amax(dim=-1, keepdim=True)
    return columns.compute_mean_received_weight().masked_fill(~enough, 0.0).amax(dim=-1)
