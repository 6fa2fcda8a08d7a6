"""The metrics of uniform attention over the visible keys: the control of every head's number."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attncli.capture import Strip
from attncli.capture.softmax_attention.visible_key_spans import RowSpans
from attncli.metrics.attention import is_metric_of_map_alone
from attncli.metrics.attention._metric_accumulator import MetricTotals, Values
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.records import NOT_APPLICABLE

ELEMENTS = 2**18
"""Of a strip of the uniform map: it stays in the processor's cache."""

SCATTERED = NOT_APPLICABLE + "the visible keys of a query do not lie side by side"


class VisibleSpans(RowSpans):
    """The same from strips of maps."""

    def accumulate_map_rows(self, strip: Strip) -> None:
        if strip.statistics is not None and strip.statistics.visible is not None:
            spans = strip.statistics.visible.spans
            self.gaps = spans is None
            self.spans = self.spans if spans is None else spans
        elif strip.visible is not None:
            self.record_visible_keys_of_rows(strip.visible, strip.first_query, strip.first_key)


@dataclass
class UniformAttentionControl:
    """Uniform maps are measured once for all attentions that see the same keys."""

    values_by_shape: dict[tuple[object, ...], Values] = field(default_factory=dict)

    def measure_uniform_attention(
        self,
        spans: VisibleSpans,
        names: Iterable[str],
        same_tokens: bool,
        period: int | None,
        total: float = 1.0,
        ids: Tensor | None = None,
    ) -> Values:
        """The metrics of uniform attention. `total`: the sum of rows; if it is not 1, shares are a
        reason in place of a number."""
        names = tuple(name for name in names if is_metric_of_map_alone(name))
        contiguous = spans.find_spans_without_gaps()
        if contiguous is None:
            return dict.fromkeys(names, SCATTERED)
        text = None if ids is None else ids.numpy().tobytes()
        key = (contiguous.numpy().tobytes(), spans.shape, names, same_tokens, period, total, text)
        if key not in self.values_by_shape:
            totals = MetricTotals(names, same_tokens, total != 1.0)
            again = True
            while again:
                for rows in iterate_uniform_map_rows(contiguous, spans.shape, period, total, ids):
                    totals.accumulate_map_rows(rows)
                again = totals.needs_another_map_pass()
            self.values_by_shape[key] = totals.compute_metric_values()
        return self.values_by_shape[key]


def iterate_uniform_map_rows(
    spans: Tensor, shape: tuple[int, int], period: int | None, total: float, ids: Tensor | None
) -> Iterable[MapStripRows]:
    """Yield strips of the map of one head with uniform attention over all visible keys."""
    queries, keys = shape
    step = max(1, ELEMENTS // keys)
    for start in range(0, queries, step):
        first, last = spans[start : start + step].T[..., None]
        low, high = int(first.min()), int(last.max())
        key = torch.arange(low, high)
        visible = (key >= first) & (key < last)
        weights = visible.to(torch.get_default_dtype()) * total / (last - first)
        place = (start, low, queries, keys)
        yield MapStripRows(weights[None, None], *place, visible[None, None], period, ids=ids)
