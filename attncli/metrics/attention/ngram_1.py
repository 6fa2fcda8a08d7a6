from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._keys_after_same_tokens import compute_distance_to_ngram_attention
from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="copying", needs=("same tokens", "made text"), text="markov")
def ngram_1(rows: MapStripRows) -> "Tensor":
    """Mean total variation between a row and uniform attention to all keys so far: the in-context unigram estimator, on Markov text.

    0: by its values the head counts what has followed so far, as statistical induction heads do (Edelman et al. 2024).
    """
    return compute_distance_to_ngram_attention(rows, 1)
