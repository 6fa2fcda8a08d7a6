"""One pass over a batch of draws of random tokens, each with numbers of its own."""

from attncli.analysis.heads.forward_passes.head_runs import Observer, Seen, Wanted, unheard
from attncli.analysis.heads.forward_passes.uniform_attention import UniformNull
from attncli.capture import Site, Strip
from attncli.metrics.attention._totals import Totals, Values


class DrawObserver(Observer):
    """Of a batch that is never padded: what all draws share, such as the visible keys, is looked at once."""

    def __init__(self, wanted: Wanted, null: UniformNull, where: str, draws: int) -> None:
        super().__init__(wanted, null, where, unheard)
        self.each = [Seen() for _ in range(draws)]
        self.is_apart = True
        """Whether every attention has kept the draws apart, as one that folds windows into the batch does not."""

    def begin(self, site: Site, strip: Strip) -> None:
        super().begin(site, strip)
        self.is_apart = self.is_apart and len(strip.weights) == len(self.each)

    def numbers_of(self, site: Site, totals: Totals) -> Values:
        items = totals.items()
        several = len(items) == len(
            self.each
        )  # else the metrics do not apply to it, for the same reasons
        for place, seen in enumerate(self.each):
            seen.heads[site] = self.but_silent(items[place if several else 0])
        return super().numbers_of(site, totals)

    def draws(self) -> list[Seen]:
        """Each with what is the same for all; none where some attention has mixed the draws."""
        if not self.is_apart:
            return []
        for seen in self.each:
            seen.nulls, seen.silent = self.seen.nulls, self.seen.silent
            seen.tokens = self.seen.tokens
        return self.each
