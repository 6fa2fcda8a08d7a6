"""What an observer requests of a map in place of its weights, and the statistics of its rows, columns and diagonals."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.metrics.attention import ATTENTION, WITHOUT_WEIGHTS
from attncli.metrics.attention._energy_rank import make_start_vectors
from attncli.metrics.attention._map_spectrum import make_orthonormal_start_vectors
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.metrics.attention._row_statistics import MapSums, RowStatistics, VisibleKeys

ROWS = (
    "maximum_scores",
    "row_sums",
    "entropy",
    "largest_weights",
    "sums_of_squares",
    "weighted_distances",
    "weights_on_first_token",
    "small_weight_counts",
    "centred_sums_of_squares",
)
"""The numbers of each row, by their names in MapStripRows, in the order of one_pass.c; listed offsets follow."""

COLUMNS, OFFSETS, COLUMN_SQUARES, CENTRED_SQUARES = 1, 2, 4, 8
"""Bits of `what` in one_pass.c."""


SQUARES = frozenset({"offsets", "spectrum", "gram"})
"""Kinds of metrics that need the squares of all rows."""

FIRST_VECTORS = {"spectrum": make_orthonormal_start_vectors, "gram": make_start_vectors}
"""What kinds of metrics multiply A^T A with first."""


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
    column_squares: bool = False
    """Sums of squares over columns."""
    first_vectors: Callable[[int], Tensor] | None = None
    """Vectors [key, vector] by the number of keys, with which A^T A is multiplied in the first reading."""

    @property
    def compiled_library_flags(self) -> int:
        squares = COLUMN_SQUARES * self.column_squares
        squares += CENTRED_SQUARES * ("centred_sums_of_squares" in self.rows)
        return COLUMNS * self.columns + OFFSETS * self.offsets + squares


@lru_cache(maxsize=32)
def request_statistics_for_metrics(
    names: tuple[str, ...], period: int | None, weights: bool = False
) -> StatisticsRequest:
    """What these metrics need; `weights`: whether something else reads them."""
    kinds = {ATTENTION.declaration_of_entry(name).of for name in names}
    rows = RecordedRows(period)
    for name in names:
        if ATTENTION.declaration_of_entry(name).of == "summaries":
            rows.record_statistics_read_by_metric(name)
    known = {"row_sums", *rows.__dict__, *(["sums_of_squares"] if kinds & SQUARES else [])}
    known |= {"weights_on_first_token"} if "gates" in kinds else set()
    known |= {"centred_sums_of_squares"} if "spectrum" in kinds else set()
    read = tuple(name for name in ROWS if name in known)
    if weights or not kinds <= WITHOUT_WEIGHTS:
        scores = any("logits" in ATTENTION.declaration_of_entry(name).needs for name in names)
        read = tuple(name for name in read if name != "small_weight_counts")
        return StatisticsRequest(False, False, (), read, weights=True, scores=scores)
    columns = bool(kinds & {"columns", "spectrum"}) or "small_weight_counts" in known
    vectors = [draw for kind, draw in FIRST_VECTORS.items() if kind in kinds]
    return StatisticsRequest(
        columns,
        "offsets" in kinds,
        tuple(rows.listed),
        read,
        "sides" in kinds,
        column_squares="energy" in kinds,
        first_vectors=next(iter(vectors), None),
    )


class RecordedRows(MapStripRows):
    """A map of one weight, whose computed properties and offsets tell what metrics read of it."""

    def __init__(self, period: int | None) -> None:
        super().__init__(torch.ones(1, 1, 1, 1), period=period)
        self.listed: dict[int, None] = {}

    def record_statistics_read_by_metric(self, name: str) -> None:
        """Compute a metric, unless it needs a text that repeats itself and this does not."""
        needs = ATTENTION.declaration_of_entry(name).needs
        self.scores = self.weights if "scores" in needs else None
        if self.period is not None or "repeats" not in needs:
            ATTENTION[name](self)

    def read_weights_at_offset(self, offset: int) -> Tensor:
        self.listed[offset] = None
        return super().read_weights_at_offset(offset)


class MapStatistics(NamedTuple):
    """The statistics of one attention, without its weights, or of a strip of its rows that has them."""

    request: StatisticsRequest
    rows: Tensor
    """[statistic, batch, head, query]: those of ROWS, then of each listed offset; nan where there is no such key."""
    sums: MapSums
    visible: VisibleKeys | None = None
    """None for a strip, which has what it shows."""

    def find_row_statistic(self, name: str) -> Tensor:
        """[batch, head, query]"""
        return self.rows[ROWS.index(name)]

    def row_statistics_by_name(self) -> dict[str, Tensor]:
        """The statistics of rows by their names in MapStripRows; a softmax has no weights below 0."""
        found = {name: self.find_row_statistic(name) for name in self.request.rows}
        sums = found["row_sums"]
        return {
            **found,
            "sums_of_absolute_weights": sums,
            "sums_of_negative_weights": sums.new_zeros(sums.shape),
        }

    def make_row_statistics(
        self,
        scored: bool,
        period: int | None,
        ids: Tensor | None,
        sides: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> RowStatistics:
        assert self.visible is not None
        return RowStatistics(
            self.row_statistics_by_name(),
            dict(zip(self.request.listed_offsets, self.rows[len(ROWS) :], strict=True)),
            self.visible,
            self.sums,
            scored,
            period=period,
            ids=ids,
            sides=sides,
        )
