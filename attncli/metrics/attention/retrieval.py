from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._keys_after_same_tokens import has_copy_largest_weight
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="copying", needs=("same tokens", "made text"), text="needles")
def retrieval(rows: MapStripRows) -> "Tensor":
    """Share of the tokens of a needle far back that get the head's largest weight when they are the next to be copied.

    After Wu et al. 2024 (retrieval heads), but without words: four pieces of random tokens once more at the end of the text.
    """
    return has_copy_largest_weight(rows)
