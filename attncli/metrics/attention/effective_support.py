from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("keys")
def effective_support(summaries: MapStripRows) -> "Tensor":
    """Mean of e^{H_i}: how many keys a uniform row of the same entropy would have.

    1: one key each; n_i: uniform. Uniform causal attention over 64 tokens has 32.5.
    """
    return summaries.entropy.exp()
