"""Which part of a model was measured, where --layers and --heads select one."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncli.capture import AttentionSite


@dataclass(frozen=True)
class HeadSelection:
    """The measured heads and layers, and those of the whole model."""

    layers: int
    of_layers: int
    heads: int
    of_heads: int

    @classmethod
    def of(
        cls,
        heads: "Mapping[AttentionSite, Collection[int]]",
        layers: Collection[int] | None,
        selects: Callable[[int, int], bool],
    ) -> "HeadSelection":
        """`heads`: the numbers of every attention's heads in the whole model."""
        selected = {
            site: sum(selects(site.layer, head) for head in own)
            for site, own in heads.items()
            if layers is None or site.layer in layers
        }
        looked_at = [site for site, count in selected.items() if count]
        return cls(
            count_attention_layers(looked_at),
            count_attention_layers(heads),
            sum(selected.values()),
            sum(map(len, heads.values())),
        )

    @property
    def covers_all_heads(self) -> bool:
        """Whether every head was looked at."""
        return self.heads == self.of_heads

    def describe_layers(self) -> str:
        """`6 attention layers`, `2 of 30 attention layers`"""
        return f"{format_count_of_total(self.layers, self.of_layers)} attention layer{'' if self.of_layers == 1 else 's'}"

    def describe_heads(self, roles: str) -> str:
        """`; 72 heads: 57 mixed, 15 sink`, `; 2 of 270 heads: 1 sink, 1 mixed`; empty where all were
        measured and none has a role."""
        if self.covers_all_heads and not roles:
            return ""
        return f"; {format_count_of_total(self.heads, self.of_heads)} head{'' if self.of_heads == 1 else 's'}{roles}"


def count_attention_layers(sites: "Iterable[AttentionSite]") -> int:
    """A layer may attend in several ways, such as to itself and across."""
    return len({(site.stack, site.layer) for site in sites})


def format_count_of_total(some: int, whole: int) -> str:
    return str(whole) if some == whole else f"{some} of {whole}"
