from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._strip_rows import StripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="sinks")
def rest_share(rows: StripRows) -> "Tensor":
    """Mean over queries of A_i0 + 1 - Σ_j A_ij: what rests on token 0 and on a learned sink, on one scale.

    0: nothing; 1: the head is at rest. Where there is no learned sink it is the weight on token 0 alone.
    """
    learned = 1.0 - rows.sums
    return learned + rows.weights[..., 0] if rows.first_key == 0 else learned
