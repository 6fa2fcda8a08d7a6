from typing import TYPE_CHECKING

from attncli.metrics.attention import measure
from attncli.metrics.attention._copies import largest_on_copy
from attncli.metrics.attention._strip_rows import Rows

if TYPE_CHECKING:
    from torch import Tensor


@measure("1", group="copying", needs=("same tokens", "made text"), text="needles")
def retrieval(rows: Rows) -> "Tensor":
    """Share of the tokens of needles far back that a head's largest weight is on when they are next in the copy.

    After Wu et al. 2024 (retrieval heads), but without words: four pieces of random tokens once more at the end of the text.
    """
    return largest_on_copy(rows)
