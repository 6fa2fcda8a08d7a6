"""What is written of one attention while it is computed: its output, and the statistics of its maps."""

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capture.softmax_attention.attention_interface import EagerCall
from attncli.capture.softmax_attention.map_statistics import ROWS, StatisticsRequest
from attncli.metrics.attention._row_statistics import MapSums


def allocate_float32_tensor(count: int) -> Tensor:
    """What the library takes, whatever torch's default dtype and device are."""
    return torch.empty(count, dtype=torch.float32, device="cpu")


class WrittenRows(NamedTuple):
    """Where some rows of a map are written: memory that is taken again for the next ones."""

    weights: Tensor
    """[batch, head, query, key]; 0 for hidden keys."""
    scores: Tensor
    """The same of what the softmax is given."""
    scored: bool
    """Whether these are wanted; they are nan if not."""
    first_key: int


class MapVectors(NamedTuple):
    """What A^T A of some maps is multiplied with."""

    values: Tensor
    """[map or 1, key, vector] float32"""
    maps: Sequence[int]
    """Which ones, counted over batch and heads."""


class Results(NamedTuple):
    """What is written of one attention; statistics of rows are nan until they are."""

    output: Tensor
    """[batch, query, head, value]"""
    rows: Tensor
    columns: Tensor
    diagonals: Tensor
    column_squares: Tensor
    products: Tensor
    """[map, vector, key]: A^T A v"""
    sizes: Tensor
    """[3, batch, head]: max |x| of query, key and value; nan where one is."""

    @classmethod
    def allocate_results_for_call(
        cls, call: EagerCall, request: StatisticsRequest, vectors: MapVectors | None = None
    ) -> "Results":
        batch, heads, queries, _ = call.query.shape
        width, offsets = call.value.shape[-1], queries + call.key_count - 1
        lead, floats = (batch, heads), allocate_float32_tensor(0)
        doubles = floats.double()
        return cls(
            floats.new_empty(batch, queries, heads, width),
            floats.new_full((len(ROWS) + len(request.listed_offsets), *lead, queries), nan),
            doubles.new_zeros(*lead, call.key_count if request.columns else 0),
            doubles.new_zeros(*lead, offsets if request.offsets else 0),
            doubles.new_zeros(*lead, call.key_count if request.column_squares else 0),
            doubles.new_zeros(len(vectors.maps), vectors.values.shape[-1], call.key_count)
            if vectors
            else doubles,
            floats.new_zeros(3, *lead),
        )

    def collect_column_and_diagonal_sums(self) -> MapSums:
        return MapSums(self.columns, self.diagonals, self.column_squares)

    def write_largest_qkv_entries(self, call: EagerCall) -> None:
        for number, side in enumerate((call.query, call.key, call.value)):
            # torch's norm of order infinity takes ten times as long
            least, most = torch.aminmax(side)
            self.sizes[number] = torch.maximum(-least, most)

    def remove_hidden_keys_from_statistics(
        self, visible: Tensor, request: StatisticsRequest, start: int, stop: int
    ) -> None:
        """Correct what counts hidden keys, where a bias hid them."""
        part, keys = slice(start, stop), visible.shape[-1]
        self.rows[ROWS.index("small_weight_counts")][..., part] -= (~visible).sum(dim=-1).float()
        for number, offset in enumerate(request.listed_offsets, len(ROWS)):
            key = (torch.arange(start, stop) - offset).clamp(0, keys - 1)
            shown = visible.gather(-1, key[:, None].expand(*visible.shape[:3], 1))[..., 0]
            self.rows[number][..., part] = self.rows[number][..., part].masked_fill(~shown, nan)
