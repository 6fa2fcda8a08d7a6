"""Rows of maps whose weights were never kept: what they come to, as the one-pass library finds it."""

from collections.abc import Mapping
from math import nan
from typing import TYPE_CHECKING, NamedTuple

from attncli.metrics.attention._map_strip_rows import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


class MapSums(NamedTuple):
    """Sums over the columns and diagonals of whole maps, in float64."""

    received: "Tensor"
    """[batch, head, key]"""
    queries_per_key: "Tensor"
    """[batch or 1, 1, key]: how many queries see each key."""
    diagonals: "Tensor"
    """[batch, head, offset], from offset -(keys - 1) on."""
    pairs_per_offset: "Tensor"
    """[batch or 1, 1, offset]: how many pairs are visible."""


class RowStatistics(MapStripRows):
    """All rows of the maps of one attention; whatever would read their weights finds nan."""

    def __init__(
        self,
        rows: "Mapping[str, Tensor]",
        cells: "Mapping[int, Tensor]",
        seen: "Tensor",
        sums: MapSums,
        keys: int,
        scored: bool,
        period: int | None,
        ids: "Tensor | None",
    ) -> None:
        """`rows`: by the names of MapStripRows' properties. `cells`: A_{i, i - offset} by offset. `seen`: as MapStripRows has it."""
        unknown = rows["sums"].new_full((), nan).expand(*rows["sums"].shape, keys)
        super().__init__(unknown, period=period, scores=unknown if scored else None, ids=ids)
        self.__dict__.update(rows, seen=seen)
        self.cells, self.whole = cells, sums

    def received(self) -> tuple["Tensor", "Tensor"]:
        return self.whole.received, self.whole.queries_per_key

    def diagonals(self) -> tuple["Tensor", "Tensor", int]:
        return self.whole.diagonals, self.whole.pairs_per_offset, 1 - self.keys

    def behind(self, offset: int) -> "Tensor":
        return self.cells[offset]
