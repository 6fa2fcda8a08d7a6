"""Rows of maps whose weights were never kept: what they come to, as the one-pass library finds it."""

from collections.abc import Mapping
from math import nan
from typing import TYPE_CHECKING, NamedTuple

from attncli.metrics.attention._row_block_of_maps import MapStripRows, MultiplyByGram

if TYPE_CHECKING:
    from torch import Tensor


class VisibleKeys(NamedTuple):
    """How many keys a mask shows, of each item of a batch or of all alike."""

    keys_per_query: "Tensor"
    """[batch or 1, 1, query]: how many keys each query sees."""
    sees_first: "Tensor"
    """[batch or 1, 1, query] bool: whether it sees token 0."""
    queries_per_key: "Tensor"
    """[batch or 1, 1, key]: how many queries see each key."""
    pairs_per_offset: "Tensor"
    """[batch or 1, 1, offset]: visible pairs, from offset -(keys - 1) on."""
    spans: "Tensor | None"
    """[query, 2]: the first visible key and the one after the last; None where these differ or have gaps."""


class MapSums(NamedTuple):
    """Sums over the columns and diagonals of whole maps, in float64; those not requested are empty."""

    received_mass: "Tensor"
    """[batch, head, key]"""
    diagonals: "Tensor"
    """[batch, head, offset], from offset -(keys - 1) on."""
    column_sums_of_squares: "Tensor"
    """[batch, head, key]"""
    multiply_by_gram: "MultiplyByGram | None" = None


class RowStatistics(MapStripRows):
    """All rows of the maps of one attention; whatever would read their weights finds nan."""

    def __init__(
        self,
        rows: "Mapping[str, Tensor]",
        cells: "Mapping[int, Tensor]",
        visible: VisibleKeys,
        sums: MapSums,
        scored: bool,
        period: int | None,
        ids: "Tensor | None",
        sides: "tuple[Tensor, Tensor, Tensor] | None" = None,
    ) -> None:
        """`rows`: by the names of MapStripRows' properties. `cells`: A_{i, i - offset} by offset."""
        keys = visible.queries_per_key.shape[-1]
        unknown = rows["row_sums"].new_full((), nan).expand(*rows["row_sums"].shape, keys)
        scores = unknown if scored else None
        super().__init__(unknown, period=period, scores=scores, ids=ids, sides=sides)
        self.__dict__.update(rows, keys_per_query=visible.keys_per_query)
        self.cells, self.keys_seen, self.whole = cells, visible, sums
        self.multiply_by_gram = sums.multiply_by_gram

    @property
    def sees_first_token(self) -> "Tensor":
        return self.keys_seen.sees_first

    def sum_over_visible_keys(self, vectors: "Tensor") -> "Tensor":
        assert self.keys_seen.spans is not None
        first, stop = self.keys_seen.spans.unbind(dim=-1)
        *lead, keys, width = vectors.shape
        sums = vectors.new_zeros((*lead, keys + 1, width))
        sums[..., 1:, :] = vectors.cumsum(dim=-2)
        return sums[..., stop, :] - sums[..., first, :]

    def sum_received_mass(self) -> tuple["Tensor", "Tensor"]:
        return self.whole.received_mass, self.keys_seen.queries_per_key

    @property
    def column_sums_of_squares(self) -> "Tensor":
        return self.whole.column_sums_of_squares

    def sum_weights_over_diagonals(self) -> tuple["Tensor", "Tensor", int]:
        return self.whole.diagonals, self.keys_seen.pairs_per_offset, 1 - self.keys

    def read_weights_at_offset(self, offset: int) -> "Tensor":
        return self.cells[offset]
