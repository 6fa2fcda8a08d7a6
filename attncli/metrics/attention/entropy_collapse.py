from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor

COLLAPSED = 0.1
"""Nats: 0.98 of the weight on one key and the rest on another."""


@metric("1")
def entropy_collapse(summaries: MapStripRows) -> "Tensor":
    """Share of the queries whose entropy is below 0.1 nat.

    1: every query looks at one key (entropy collapse, arXiv 2303.06296). Uniform causal attention has 1 / n, for the first
    query sees itself alone.
    """
    return (summaries.entropy < COLLAPSED).to(summaries.entropy.dtype)
