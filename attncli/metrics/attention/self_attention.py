from typing import TYPE_CHECKING

from attncli.metrics.attention import measure
from attncli.metrics.attention._strip_rows import StripRows

if TYPE_CHECKING:
    from torch import Tensor


@measure("1", needs=("same tokens",), signed=True)
def self_attention(rows: StripRows) -> "Tensor":
    """Mean of A_ii: what a query gives to its own token.

    0: nothing; 1: all of it.
    """
    return rows.behind(0)
