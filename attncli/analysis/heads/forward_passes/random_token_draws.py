"""One forward pass over a batch of draws of random tokens, each measured separately."""

from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    PassRequest,
    PassResult,
    ignore_progress_share,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.capture import AttentionSite, Strip
from attncli.metrics.attention._metric_accumulator import MetricTotals, Values


class RandomTokenBatchObserver(HeadObserver):
    """Observes a batch without padding: what all draws share, such as the visible keys, is measured
    once."""

    def __init__(
        self, request: PassRequest, null: UniformAttentionControl, where: str, draws: int
    ) -> None:
        super().__init__(request, null, where, ignore_progress_share)
        self.each = [PassResult() for _ in range(draws)]
        self.is_apart = True
        """Whether every attention layer keeps the draws separate; one that folds windows into the
        batch does not."""

    def begin(self, site: AttentionSite, strip: Strip) -> None:
        super().begin(site, strip)
        self.is_apart = self.is_apart and len(strip.weights) == len(self.each)

    def numbers_of(self, site: AttentionSite, totals: MetricTotals) -> Values:
        items = totals.values_by_item()
        several = len(items) == len(
            self.each
        )  # else the metrics do not apply to it, for the same reasons
        for place, seen in enumerate(self.each):
            seen.heads[site] = self.but_silent(items[place if several else 0])
        return super().numbers_of(site, totals)

    def draws(self) -> list[PassResult]:
        """One result per draw, with the shared values in each; empty where an attention layer mixes
        the draws."""
        if not self.is_apart:
            return []
        for seen in self.each:
            seen.nulls, seen.silent = self.seen.nulls, self.seen.silent
            seen.tokens = self.seen.tokens
        return self.each
