"""The few numbers for a logger: the mean of every metric, and its worst head with its location."""

from collections.abc import Iterator, Sequence

from attncli.records import Report, Row
from attncli.training.metric_growth import GROWTH, LEFT
from attncli.training.step_reports import WORST, find_worst_row_of_metric

ROOT = "attn"
LOST = f"{ROOT}/not_finite"
"""1 at a step whose numbers are not finite."""


def summarize_report_as_scalars(report: Report, each_layer: bool) -> dict[str, float]:
    """`attn/max_logit/worst` and its kin, plain numbers all of them: not every logger takes words."""
    found: dict[str, float] = {}
    for metric in dict.fromkeys(row.metric for row in report.rows):
        known = [row for row in report.rows if row.metric == metric and row.value is not None]
        if not known:
            continue
        found |= dict(summarize_report_rows_of_metric(metric, known))
        if each_layer and not metric.endswith((GROWTH, LEFT)):
            found |= dict(summarize_metric_by_layer(metric, known))
    return found or {LOST: 1.0}


def summarize_report_rows_of_metric(
    metric: str, rows: Sequence[Row]
) -> Iterator[tuple[str, float]]:
    """Summarize many rows in a few numbers."""
    values = [row.value for row in rows if row.value is not None]
    if metric.endswith(LEFT):
        yield f"{ROOT}/{metric.removesuffix(LEFT)}/steps_left", min(values)
        return
    if metric.endswith(GROWTH):
        name = metric.removesuffix(GROWTH)
        sides = {"max": max(values), "min": min(values)}
        yield f"{ROOT}/{name}/growth", sides.get(WORST.get(name, ""), max(values, key=abs))
        return
    yield f"{ROOT}/{metric}/mean", sum(values) / len(values)
    place = find_worst_row_of_metric(metric, rows)
    if place is None:
        yield f"{ROOT}/{metric}/min", min(values)
        yield f"{ROOT}/{metric}/max", max(values)
        return
    assert place.value is not None
    yield f"{ROOT}/{metric}/worst", place.value
    if place.layer is not None:
        yield f"{ROOT}/{metric}/worst_layer", place.layer
    if place.head is not None:
        yield f"{ROOT}/{metric}/worst_head", place.head


def summarize_metric_by_layer(metric: str, rows: Sequence[Row]) -> Iterator[tuple[str, float]]:
    """The worst of each layer, or its mean where neither side is worse; separately for each stack."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        stack = f"{row.keys['stack']}/" if "stack" in row.keys else ""
        groups.setdefault(f"{stack}layer_{row.layer:02d}", []).append(row)
    for name, members in groups.items():
        values = [row.value for row in members if row.value is not None]
        side = WORST.get(metric)
        pick = {"max": max(values), "min": min(values)}
        yield f"{ROOT}/{metric}/{name}", pick.get(side or "", sum(values) / len(values))
