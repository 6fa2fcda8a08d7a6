from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import Offsets

if TYPE_CHECKING:
    from torch import Tensor

MOST = 0.9 - 1e-9
"""Less what rounding takes: a tenth of the weight may lie at one distance."""


@metric("tokens", group="memory", needs=("same tokens",))
def memory_length(offsets: Offsets) -> "Tensor":
    """Least r with 0.9 of all weight on keys that are at most r tokens away: how far a head remembers.

    0: at the token itself. Uniform causal attention over n tokens comes near 0.59 n.
    """
    back = offsets.weights[..., offsets.zero :]
    ahead = offsets.weights[..., : offsets.zero].flip(-1)
    size = 1 + max(back.shape[-1] - 1, ahead.shape[-1])
    away = back.new_zeros((*back.shape[:-1], size))
    away[..., : back.shape[-1]] += back
    away[..., 1 : 1 + ahead.shape[-1]] += ahead
    reached = away.cumsum(dim=-1)
    return (reached < MOST * reached[..., -1:]).sum(dim=-1).double()
