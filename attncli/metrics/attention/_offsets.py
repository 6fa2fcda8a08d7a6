"""Sums over each diagonal of a map: the weight by distance from query to key."""

from typing import TYPE_CHECKING, NamedTuple

from attncli.metrics.attention._strip_rows import StripRows

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


def sum_diagonals(values: "Tensor", rows: StripRows) -> tuple["Tensor", int]:
    """Sums [batch, head, offset] of a strip's values over its diagonals, and the offset that comes first.

    With the keys turned round and each row moved right by its number, a diagonal is a column: that is a change of the
    row length of the same memory, by one.
    """
    size, width = values.shape[-2:]
    wide = values.new_zeros((*values.shape[:-1], width + size))
    wide[..., :width] = values.flip(-1)
    moved = wide.flatten(-2)[..., : size * (width + size - 1)]
    sums = moved.reshape(*values.shape[:-2], size, width + size - 1).double().sum(dim=-2)
    return sums, rows.first_query - (rows.first_key + width - 1)
