from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("nats")
def entropy(summaries: MapStripRows) -> "Tensor":
    """Mean over queries of H_i = -Σ_j A_ij ln A_ij.

    0: every query looks at one key; ln n_i where query i attends uniformly to the n_i keys that it sees.
    """
    return summaries.entropy
