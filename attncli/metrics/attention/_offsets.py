"""Sums over each diagonal of a map: the weight by distance from query to key."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Offsets(NamedTuple):
    """Sums over the diagonals i - j = -(keys - 1) … queries - 1, in float64."""

    weights: "Tensor"
    """[batch, head, offset]: Σ A_{i, i - r} over the visible pairs."""
    pairs: "Tensor"
    """[batch or 1, 1, offset]: how many there are."""
    squares: "Tensor"
    """[batch, head]: Σ A_ij² over the whole map."""
    zero: int
    """The index of offset 0."""
