from math import nan
from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1")
def entropy_normalised(summaries: MapStripRows) -> "Tensor":
    """Mean of H_i / ln n_i over the queries that see n_i > 1 keys.

    0: one key each; 1: uniform over all visible keys. Never divided by ln n, which would make every causal head look sharp.
    """
    alone = summaries.keys_per_query < 2
    result = summaries.entropy / summaries.keys_per_query.clamp_min(2).log()
    return result.masked_fill(alone, nan)
