from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("keys")
def participation(summaries: MapStripRows) -> "Tensor":
    """Mean of 1 / Σ_j A_ij²: the number of keys that share a row, by its squares.

    1: one key each; n_i: uniform. Less moved by many tiny weights than effective_support.
    """
    return 1.0 / summaries.sums_of_squares
