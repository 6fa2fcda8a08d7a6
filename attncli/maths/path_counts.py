"""How many paths a network has, by length, in exact integers.

A path picks in each layer one head, or the skip where there is one; its length is the number of heads it goes through.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from attncli.maths.scaled import LOG10_2


def path_counts(layers: int, heads: int, skip: bool) -> dict[int, int]:
    """Length → number of paths: C(L, k) H^k with skips; without them all H^L paths have length L."""
    if not skip:
        return {layers: heads**layers}
    return {length: math.comb(layers, length) * heads**length for length in range(layers + 1)}


def counts_of_choices(choices: Sequence[int]) -> dict[int, int]:
    """The same where layers differ in their number of heads: the coefficients of Π_l (1 + H_l z)."""
    counts = [1]
    for heads in choices:
        counts = [
            stays + heads * goes for stays, goes in zip([*counts, 0], [0, *counts], strict=True)
        ]
    return dict(enumerate(counts))


def shares(counts: dict[int, int]) -> dict[int, float]:
    """Each length's part of all paths: Binomial(L, H/(1+H)) with skips."""
    total = sum(counts.values())
    return {length: float(Fraction(count, total)) for length, count in counts.items()}


def log10_of_integer(number: int) -> float:
    """log10 of a positive integer of any size."""
    surplus = max(0, number.bit_length() - 64)
    return math.log10(number >> surplus) + surplus * LOG10_2
