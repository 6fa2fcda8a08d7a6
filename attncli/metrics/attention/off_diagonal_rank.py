from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._off_diagonal_block import PastBlock

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="memory", signed=True)
def off_diagonal_rank(block: PastBlock) -> "Tensor":
    """Singular values above 1e-4 of the largest in the block of later queries on earlier keys, counted up to 256.

    What the second half of a text can know of the first: at most the size of a recurrent layer's state, whatever the length.
    """
    return block.compute_numerical_rank()
