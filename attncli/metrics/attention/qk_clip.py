from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_LOGIT = 100.0
"""τ of the published method."""


@metric("1", needs=("scores",), take="min")
def qk_clip(summaries: MapStripRows) -> "Tensor":
    """min(1, τ / max_logit) with τ = 100: what QK-Clip would multiply the head's scores by.

    1: nothing is clipped; below 1 the head's largest score is past 100 (Kimi K2, arXiv 2507.20534).
    """
    return LARGEST_LOGIT / summaries.largest_scores.clamp_min(LARGEST_LOGIT)
