"""Count a network's paths by length, in exact integers.

A path picks in each layer one head, or the skip where there is one; its length is the number of heads it goes through.
"""

import math
from collections.abc import Sequence

from attncli.errors import LimitError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import LOG10_2

MOST_BITS = 10**9
"""Of all counts together."""


def count_paths_by_length(layers: int, heads: int, skip: bool) -> dict[int, int]:
    """Length → number of paths: C(L, k) H^k with skips; without them all H^L paths have length L."""
    bits = layers * (1 + heads).bit_length()
    if bits * (layers + 1 if skip else 1) > MOST_BITS:
        raise LimitError(
            f"the exact numbers of paths through {layers:,} layers of {heads:,} heads have {bits:,} bits each: "
            "count those of fewer `layers`."
        )
    if not skip:
        return {layers: heads**layers}
    counts = {0: 1}
    for length in range(1, layers + 1):
        counts[length] = counts[length - 1] * (layers - length + 1) * heads // length
    return counts


def count_paths_with_varying_heads(choices: Sequence[int]) -> dict[int, int]:
    """The same where layers differ in their number of heads: the coefficients of Π_l (1 + H_l z)."""
    counts = [1]
    for heads in choices:
        counts = [
            stays + heads * goes for stays, goes in zip([*counts, 0], [0, *counts], strict=True)
        ]
    return dict(enumerate(counts))


def compute_share_of_paths_per_length(counts: dict[int, int]) -> dict[int, float]:
    """Each length's part of all paths: Binomial(L, H/(1+H)) with skips."""
    total = sum(counts.values())
    return {length: count / total for length, count in counts.items()}  # correctly rounded


def log10_of_integer(number: int) -> float:
    """log10 of a positive integer of any size."""
    surplus = max(0, number.bit_length() - 64)
    return math.log10(number >> surplus) + surplus * LOG10_2
