"""What to inspect, besides the options of the model and its input."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.analysis.heads.model_inspection import HeadPlan
from attncli.analysis.heads.ordering import select_ranking
from attncli.capture import STRIP_MEMORY
from attncli.errors import UsageError
from attncli.options.heads import HeadOptions
from attncli.sources import Source


@dataclass(frozen=True)
class InspectionRequest:
    """Options besides those of the model and its input."""

    source: Source
    metric: Sequence[str]
    with_random_init: bool
    with_shuffled_text: bool
    tokens: int | None
    seed: int
    save_maps: Path | None
    draws_maps: bool
    """Whether the maps of chosen heads are to be drawn."""
    for_page: bool
    """Whether a page is to show maps."""
    strip_memory: int | None
    """MiB."""
    pairs: int = 0
    """How many of each head's strongest pairs of tokens are reported."""

    def plan(self, heads: HeadOptions) -> HeadPlan:
        metrics = choose_metrics(self.metric, self.pairs)
        order = select_ranking(heads, metrics.heads)
        return HeadPlan(
            metrics,
            heads.choose_layers(),
            heads.head_filter(),
            order,
            self.with_shuffled_text,
            self.seed,
            self.strip_bytes,
        )

    @property
    def strip_bytes(self) -> int:
        if self.strip_memory is None:
            return STRIP_MEMORY
        if self.strip_memory < 1:
            raise UsageError(f"`strip_memory={self.strip_memory!r}`: it must be at least 1 MiB.")
        return self.strip_memory * 2**20
