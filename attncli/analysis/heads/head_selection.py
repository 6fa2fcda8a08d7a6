"""How much of a model was looked at, where --layers and --heads leave only a part of it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncli.capture import Site


@dataclass(frozen=True)
class Chosen:
    """What was looked at, and what there is."""

    layers: int
    of_layers: int
    heads: int
    of_heads: int

    @classmethod
    def of(
        cls,
        heads: "Mapping[Site, Collection[int]]",
        layers: Collection[int] | None,
        keeps: Callable[[int, int], bool],
    ) -> "Chosen":
        """`heads`: the numbers of every attention's heads in the whole model."""
        kept = {
            site: sum(keeps(site.layer, head) for head in own)
            for site, own in heads.items()
            if layers is None or site.layer in layers
        }
        looked_at = [site for site, count in kept.items() if count]
        return cls(
            count_layers(looked_at),
            count_layers(heads),
            sum(kept.values()),
            sum(map(len, heads.values())),
        )

    @property
    def whole(self) -> bool:
        """Whether every head was looked at."""
        return self.heads == self.of_heads

    def layers_in_words(self) -> str:
        """`6 attention layers`, `2 of 30 attention layers`"""
        return f"{part(self.layers, self.of_layers)} attention layer{'' if self.of_layers == 1 else 's'}"

    def heads_in_words(self, played: str) -> str:
        """`; of 72 heads 57 mixed`, `; 2 of 270 heads, 1 sink, 1 mixed`; nothing where all are there and play nothing."""
        if self.whole:
            return (
                f"; of {self.heads} head{'' if self.heads == 1 else 's'} {played}" if played else ""
            )
        which = f"; {part(self.heads, self.of_heads)} head{'' if self.of_heads == 1 else 's'}"
        return f"{which}, {played}" if played else which


def count_layers(sites: "Iterable[Site]") -> int:
    """A layer may attend in several ways, such as to itself and across."""
    return len({(site.stack, site.layer) for site in sites})


def part(some: int, whole: int) -> str:
    return str(whole) if some == whole else f"{some} of {whole}"
