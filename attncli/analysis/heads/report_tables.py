"""Views of the report of `attn inspect-model`: a grid of roles and findings, or tables of the
requested metrics."""

from collections.abc import Iterator, Sequence

from attncli.analysis.heads.classification.role_rules import DOUBT, MIXED, ROLE, ROLES
from attncli.analysis.heads.head_selection import HeadRanking
from attncli.analysis.heads.metric_selection import MetricSelection
from attncli.analysis.heads.report_rows.token_pair_and_completeness_definitions import PAIR
from attncli.analysis.heads.report_rows.token_pairs import build_token_pair_views
from attncli.analysis.means_and_confidence_intervals import describe_averaging
from attncli.maths.number_format import format_number
from attncli.records import NULLS, Row, Scalar, View

FEW = 3
"""Up to this many metrics of heads get a grid each; more become columns of one table."""

LEGEND = "  ".join(f"{role.mark} {role.name}" for role in (*ROLES, MIXED))


def format_role_legend(rows: Sequence[Row]) -> str:
    """With the sign of doubt where some head has it."""
    doubted = any(str(row.keys.get(ROLE, "")).endswith(DOUBT) for row in rows)
    return LEGEND + f"  {DOUBT} changes with the random tokens" * doubted


def build_inspection_views(
    rows: Sequence[Row], metrics: MetricSelection, ranking: HeadRanking | None, texts: int
) -> Iterator[View]:
    if metrics.pairs:
        yield from build_token_pair_views(rows, list_stacks_and_attention_kinds(rows, PAIR))
    if ranking is None and metrics.roles:
        for index, where in enumerate(list_stacks_and_attention_kinds(rows, ROLE)):
            kind = ", ".join(map(str, where.values()))
            title = kind if index else ": ".join(filter(None, (kind, format_role_legend(rows))))
            yield View(title, "layer", (ROLE,), "head", where, heat="mark")
        yield View("what stands out, most serious first", "about", (), findings="finding")
    else:
        yield from build_metric_views(rows, metrics, ranking, texts)


def build_metric_views(
    rows: Sequence[Row], metrics: MetricSelection, ranking: HeadRanking | None, texts: int
) -> Iterator[View]:
    """Heads by one metric where these are ranked; else a grid for each of few metrics, or a table of many."""
    heads = tuple(name for name in metrics.heads if any(row.metric == name for row in rows))
    over = describe_head_averaging([row for row in rows if row.metric in heads], texts)
    if ranking is not None:
        way = "rising" if ranking.rising else "falling"
        columns = tuple(dict.fromkeys([ranking.metric, *heads]))
        yield View(f"heads by {ranking.metric}, {way}{over}", "layer.head", columns)
        return
    if len(heads) <= FEW:
        for name in heads:
            for where in list_stacks_and_attention_kinds(rows, name):
                null = describe_control_values(rows, (name,), where)
                yield View(
                    f"{format_location_prefix(where)}{name}{over}{null}",
                    "layer",
                    (name,),
                    "head",
                    where,
                )
    else:
        for where in list_stacks_and_attention_kinds(rows, *heads):
            null = describe_control_values(rows, heads, where)
            yield View(
                f"{format_location_prefix(where)}heads{over}{null}",
                "layer.head",
                heads,
                where=where,
            )
    if metrics.states:
        over = describe_averaging(texts, "texts")
        yield View(f"states after each layer{over}", "layer", metrics.states)


def describe_head_averaging(rows: Sequence[Row], texts: int) -> str:
    """`, mean ± standard deviation over 3 texts or 8 draws of random tokens`, as the metrics have it."""
    draws = sorted({row.n for row in rows if row.n not in (1, texts)})
    words = [f"{texts} texts"] if texts > 1 else []
    words += [f"{count} draws of random tokens" for count in draws]
    return f", mean ± standard deviation over {' or '.join(words)}" if words else ""


def list_stacks_and_attention_kinds(rows: Sequence[Row], *metrics: str) -> list[dict[str, Scalar]]:
    """The stacks and kinds of attention, each with its layers."""
    return list(
        {
            tuple(found.items()): found
            for row in rows
            if row.metric in metrics
            for found in [{key: row.keys[key] for key in ("stack", "kind") if key in row.keys}]
        }.values()
    )


def format_location_prefix(where: dict[str, Scalar]) -> str:
    return f"{', '.join(map(str, where.values()))}: " if where else ""


def describe_control_values(
    rows: Sequence[Row], metrics: Sequence[str], where: dict[str, Scalar]
) -> str:
    """Describe the controls of the metrics: one number where all layers agree, else a range."""
    parts = []
    for null, words in NULLS.items():
        found = []
        for metric in metrics:
            values = [
                value
                for row in rows
                if row.metric == metric
                and all(row.keys.get(key) == value for key, value in where.items())
                and isinstance(value := row.keys.get(null), float)
            ]
            if values:
                found.append(
                    (f"{metric} " if len(metrics) > 1 else "") + format_value_range(values)
                )
        if found:
            parts.append(f"{words}: {', '.join(found)}")
    return "".join(f"; {part}" for part in parts)


def format_value_range(values: Sequence[float]) -> str:
    low, high = format_number(min(values)), format_number(max(values))
    return low if low == high else f"{low} … {high}"
