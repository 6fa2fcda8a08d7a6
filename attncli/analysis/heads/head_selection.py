"""Which part of a model was measured, where --layers and --heads select one; the order of its heads, and how many are shown."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.analysis.heads.classification.role_rules import PLACE
from attncli.errors import UsageError, require_known_names
from attncli.metrics.attention import ATTENTION
from attncli.options.head_selection import HeadOptions
from attncli.records import Row

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
    def count_selected_heads(
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

    def format_selected_layer_count(self) -> str:
        """`6 attention layers`, `2 of 30 attention layers`"""
        return f"{format_count_of_total(self.layers, self.of_layers)} attention layer{'' if self.of_layers == 1 else 's'}"

    def format_selected_heads_and_roles(self, roles: str) -> str:
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


@dataclass(frozen=True)
class HeadRanking:
    """Heads in the order of one metric."""

    metric: str
    rising: bool = False
    top: int | None = None
    """Number of heads to show; None: all."""


def select_head_ranking(heads: HeadOptions, metrics: Sequence[str]) -> HeadRanking | None:
    """The requested ranking, validated against the measured head metrics."""
    if heads.top is None and heads.sort is None:
        return None
    if heads.top is not None and heads.top < 1:
        raise UsageError(f"`top={heads.top!r}`: it must be at least 1.")
    if not metrics:
        raise UsageError(
            "`top` and `sort` need a metric of heads: add one with `metric`.",
            about=["top", "sort", "metric"],
        )
    name, _, way = (heads.sort or metrics[0]).partition(":")
    require_known_names("metric of heads in `sort`", [name], ATTENTION.names())
    if name not in metrics:
        raise UsageError(
            f"`sort={name!r}`: it sorts by a metric of heads that is measured, add `metric={name!r}`.",
            about=["sort", "metric"],
        )
    if way not in ("", "rising"):
        raise UsageError(f"`sort={heads.sort!r}`: write {name} or {name}:rising.")
    return HeadRanking(name, way == "rising", heads.top)


def head_location_key(row: Row) -> tuple[object, ...]:
    return (row.layer, row.head, *(row.keys.get(key) for key in PLACE))


def sort_rows_by_head_ranking(rows: Sequence[Row], ranking: HeadRanking | None) -> list[Row]:
    """Heads in their order; states and layers without the number come after."""
    if ranking is None:
        return list(rows)
    values = {
        head_location_key(row): row.value
        for row in rows
        if row.metric == ranking.metric and row.value is not None and row.head is not None
    }
    order = sorted(values, key=lambda each: values[each] or 0.0, reverse=not ranking.rising)
    rank = {each: index for index, each in enumerate(order[: ranking.top])}
    ranked = [row for row in rows if head_location_key(row) in rank]
    rest = [row for row in rows if row.head is None]
    return [*sorted(ranked, key=lambda row: rank[head_location_key(row)]), *rest]
