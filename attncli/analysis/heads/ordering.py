"""The order of the heads: by a metric that is measured, and how many of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from attncli.analysis.heads.classification.role_rules import PLACE
from attncli.errors import UsageError, require_known_names
from attncli.metrics.attention import ATTENTION
from attncli.options.heads import HeadOptions
from attncli.records import Row


@dataclass(frozen=True)
class HeadRanking:
    """Heads in the order of one metric."""

    metric: str
    rising: bool = False
    top: int | None = None
    """Number of heads to show; None: all."""


def select_ranking(heads: HeadOptions, metrics: Sequence[str]) -> HeadRanking | None:
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


def rank_rows(rows: Sequence[Row], ranking: HeadRanking | None) -> list[Row]:
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
