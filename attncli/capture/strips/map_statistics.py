"""What an observer requests of a map in place of its weights, and the statistics of its rows, columns and diagonals."""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.metrics.attention import ATTENTION, WITHOUT_WEIGHTS
from attncli.metrics.attention._map_strip_rows import MapStripRows
from attncli.metrics.attention._row_statistics import MapSums, RowStatistics, VisibleKeys

ROWS = ("best", "sums", "entropy", "largest", "squares", "distances", "on_first", "small")
"""The numbers of each row, by their names in MapStripRows, in the order of one_pass.c; listed offsets follow."""

COLUMNS, OFFSETS = 1, 2
"""Bits of `what` in one_pass.c."""


class StatisticsRequest(NamedTuple):
    """What an observer needs in place of a map's weights."""

    columns: bool
    """Sums of columns, and how many weights of each row are small."""
    offsets: bool
    """Sums over diagonals."""
    listed_offsets: tuple[int, ...]
    """Offsets r whose weights A_{i, i - r} are wanted one by one."""
    rows: tuple[str, ...] = ROWS
    """The statistics of rows that are needed; the library finds all of them."""
    spans: bool = False
    """The first and the last key that each query sees, all between them being visible."""
    weights: bool = False
    """The weights themselves, in strips of rows with the statistics of these; all else comes from them."""
    scores: bool = False
    """With the weights, what the softmax was given."""

    @property
    def bits(self) -> int:
        return COLUMNS * self.columns + OFFSETS * self.offsets


@lru_cache(maxsize=32)
def request_statistics(
    names: tuple[str, ...], period: int | None, weights: bool = False
) -> StatisticsRequest:
    """What these metrics need; `weights`: whether something else reads them."""
    kinds = {ATTENTION.spec(name).of for name in names}
    rows = RecordedRows(period)
    for name in names:
        if ATTENTION.spec(name).of == "summaries":
            rows.record(name)
    known = {"sums", *rows.__dict__, *(["squares"] if "offsets" in kinds else [])}
    known |= {"on_first"} if "gates" in kinds else set()
    read = tuple(name for name in ROWS if name in known)
    if weights or not kinds <= WITHOUT_WEIGHTS:
        scores = any("logits" in ATTENTION.spec(name).needs for name in names)
        read = tuple(name for name in read if name != "small")
        return StatisticsRequest(False, False, (), read, weights=True, scores=scores)
    columns = "columns" in kinds or "small" in known
    return StatisticsRequest(
        columns, "offsets" in kinds, tuple(rows.listed), read, "sides" in kinds
    )


class RecordedRows(MapStripRows):
    """A map of one weight, whose computed properties and offsets tell what metrics read of it."""

    def __init__(self, period: int | None) -> None:
        super().__init__(torch.ones(1, 1, 1, 1), period=period)
        self.listed: dict[int, None] = {}

    def record(self, name: str) -> None:
        """Compute a metric, unless it needs a text that repeats itself and this does not."""
        needs = ATTENTION.spec(name).needs
        self.scores = self.weights if "scores" in needs else None
        if self.period is not None or "repeats" not in needs:
            ATTENTION[name](self)

    def behind(self, offset: int) -> Tensor:
        self.listed[offset] = None
        return super().behind(offset)


class MapStatistics(NamedTuple):
    """The statistics of one attention, without its weights, or of a strip of its rows that has them."""

    request: StatisticsRequest
    rows: Tensor
    """[statistic, batch, head, query]: those of ROWS, then of each listed offset; nan where there is no such key."""
    columns: Tensor
    """[batch, head, key] in float64; empty where these were not requested."""
    diagonals: Tensor
    """[batch, head, offset] in float64, from offset -(keys - 1) on; empty where these were not requested."""
    visible: VisibleKeys | None = None
    """None for a strip, which has what it shows."""

    def of_rows(self, name: str) -> Tensor:
        """[batch, head, query]"""
        return self.rows[ROWS.index(name)]

    def by_name(self) -> dict[str, Tensor]:
        """The statistics of rows by their names in MapStripRows; a softmax has no weights below 0."""
        found = {name: self.of_rows(name) for name in self.request.rows}
        sums = found["sums"]
        return {**found, "sizes": sums, "negative": sums.new_zeros(sums.shape)}

    def as_rows(
        self,
        scored: bool,
        period: int | None,
        ids: Tensor | None,
        sides: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> RowStatistics:
        assert self.visible is not None
        return RowStatistics(
            self.by_name(),
            dict(zip(self.request.listed_offsets, self.rows[len(ROWS) :], strict=True)),
            self.visible,
            MapSums(self.columns, self.diagonals),
            scored,
            period=period,
            ids=ids,
            sides=sides,
        )
