"""One metric over many models, such as the checkpoints of a training run: a table, a trend, and
failed items."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from attncli.errors import format_count
from attncli.maths.number_format import format_short_number
from attncli.records import Definition, Finding, Report, Row, Scalar, Verdict, View
from attncli.reports.report_comparison import weight_hash

Choose = Callable[[Report], Sequence[Row]]


@dataclass(frozen=True, slots=True)
class SweepItem:
    """One model of a sweep: its report, or why there is none."""

    name: str
    step: int
    report: Report | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class SweepMetric:
    """The number that the sweep reads from every report."""

    text: str
    metric: str
    choose: Choose
    aggregate: str
    """How several numbers become one: min, max or mean."""
    combine: Callable[[Sequence[float]], float]


def build_sweep_report(items: Sequence[SweepItem], shown: SweepMetric) -> Report:
    """The metric at every item, by variant; items without a report are rows without a value."""
    measured = [tuple(build_trend_rows(item, shown)) for item in items]
    series = list(dict.fromkeys(row.keys["series"] for rows in measured for row in rows))
    rows = [
        row
        for item, found in zip(items, measured, strict=True)
        for row in found or build_rows_of_failed_model(item, series or [shown.text], measured)
    ]
    measure = table_label_of_metric(shown, items)
    trends = [Finding(f"trend: {name}", describe_trend_over_models(rows, name)) for name in series]
    done = sum(item.report is not None for item in items)
    return Report(
        study="sweep",
        headline=format_sweep_headline(trends, done, len(items)),
        rows=tuple(rows),
        metrics=merge_metric_definitions(items, rows),
        source={"kind": "sweep", "items": [model_name_and_origin(item) for item in items]},
        views=(
            View(
                f"{measure} over the sweep",
                "step",
                list_metrics_of_report_rows(rows),
                across="series",
                measure=measure,
            ),
            View("What happened", "item", (), findings="found"),
        ),
        findings=(
            *trends,
            *(Finding(item.name, describe_status_of_model(item, items)) for item in items),
        ),
        warnings=(*warn_about_same_weights(items), *merge_report_warnings(items)),
        verdicts=tuple(collect_gate_verdicts(items)),
    )


def build_trend_rows(item: SweepItem, shown: SweepMetric) -> Iterator[Row]:
    """One number for every variant, in the order of the report."""
    for series, rows in group_report_rows_by_variant(item, shown).items():
        yield combine_report_rows_of_model(rows, shown, report_row_keys_of_model(item, series))


def group_report_rows_by_variant(item: SweepItem, shown: SweepMetric) -> dict[str, list[Row]]:
    """The rows that are looked at, by their curve."""
    by_series: dict[str, list[Row]] = {}
    for row in shown.choose(item.report) if item.report else ():
        by_series.setdefault(row.variant or row.metric, []).append(row)
    return by_series


def table_label_of_metric(shown: SweepMetric, items: Sequence[SweepItem]) -> str:
    """Label of the table's numbers; it says "mean" only where several numbers were averaged."""
    series = [group_report_rows_by_variant(item, shown) for item in items]
    several = any(len(rows) > 1 for found in series for rows in found.values())
    same_text = shown.text.startswith(f"{shown.aggregate}(")
    return f"{shown.aggregate}({shown.text})" if several and not same_text else shown.text


def report_row_keys_of_model(item: SweepItem, series: Scalar) -> dict[str, Scalar]:
    return {"item": item.name, "step": item.step, "series": series}


def combine_report_rows_of_model(
    rows: Sequence[Row], shown: SweepMetric, keys: Mapping[str, Scalar]
) -> Row:
    """The row itself, with its spread, where it is the only one."""
    first = rows[0]
    variant, unit = first.variant, first.unit
    if len(rows) == 1:
        return Row(
            first.metric,
            first.value,
            unit,
            variant,
            first.layer,
            head=first.head,
            spread=first.spread,
            n=first.n,
            note=first.note,
            keys={**first.keys, **keys},
        )
    lost = [row for row in rows if row.is_missing]
    values = [row.value for row in rows if row.value is not None]
    if lost or not values:
        why = (lost or list(rows))[0]
        return Row(first.metric, None, unit, variant, note=f"{why.place}: {why.note}", keys=keys)
    return Row(first.metric, shown.combine(values), unit, variant, keys=keys)


def build_rows_of_failed_model(
    item: SweepItem, series: Sequence[Scalar], measured: Sequence[Sequence[Row]]
) -> Iterator[Row]:
    """Rows with null for every curve of a failed item, so that no gate passes over it."""
    known = {row.keys["series"]: row for rows in measured for row in rows}
    for name in series:
        like = known.get(name)
        yield Row(
            like.metric if like else str(name),
            None,
            like.unit if like else "1",
            like.variant if like else None,
            note=item.failure or "no such number in its report",
            keys=report_row_keys_of_model(item, name),
        )


def describe_trend_over_models(rows: Sequence[Row], series: Scalar) -> str:
    """First → last, how many pairs agree on a direction (Kendall), and the slope that half of them exceed (Theil, Sen)."""
    points = [
        (int(row.keys["step"]), row.value)
        for row in rows
        if row.keys["series"] == series and row.value is not None
    ]
    if len(points) < 2:
        return "too few numbers for a trend"
    slopes = [(b - a) / (at_b - at_a) for (at_a, a), (at_b, b) in combinations(points, 2)]
    falling, rising = (sum(math.copysign(1, s) == d for s in slopes if s) for d in (-1.0, 1.0))
    word, agreeing = ("falls", falling) if falling > rising else ("rises", rising)
    way = f"{format_short_number(points[0][1], 4)} → {format_short_number(points[-1][1], 4)}"
    if 2 * agreeing <= len(slopes):
        return f"{way}, no trend"
    slope = f"{format_short_number(statistics.median(slopes), 3, sign=True)} a step"
    if len(slopes) == 1:
        return f"{way}, {word}, {slope}"
    return f"{way}, {word} in {agreeing} of {format_count(len(slopes), 'pair')}, {slope} (median)"


def format_sweep_headline(trends: Sequence[Finding], done: int, total: int) -> str:
    parts = [f"{finding.about.removeprefix('trend: ')}: {finding.text}" for finding in trends]
    failed = f"; {total - done} failed" if done < total else ""
    items = f"{done} of {total} items" if total > 1 else "1 item"
    return f"{'; '.join(parts) or 'nothing was measured'} ({items}{failed})."


def merge_metric_definitions(
    items: Sequence[SweepItem], rows: Sequence[Row]
) -> dict[str, Definition]:
    known = {name: d for item in items if item.report for name, d in item.report.metrics.items()}
    return {name: known[name] for name in list_metrics_of_report_rows(rows) if name in known}


def list_metrics_of_report_rows(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.metric for row in rows))


def model_name_and_origin(item: SweepItem) -> dict[str, object]:
    return {"item": item.name, "source": item.report.source if item.report else None}


def describe_status_of_model(item: SweepItem, items: Sequence[SweepItem]) -> str:
    """Describe an item: its step and its status."""
    if item.report is None:
        return f"step {item.step}: {item.failure}"
    same_weights = find_earlier_model_with_same_weights(item, items)
    return f"step {item.step}: " + (
        f"the same weights as {same_weights.name}" if same_weights else "done"
    )


def find_earlier_model_with_same_weights(
    item: SweepItem, items: Sequence[SweepItem]
) -> SweepItem | None:
    own = weight_hash(item.report) if item.report else None
    for other in items:
        if other is item or own is None:
            return None
        if other.report is not None and weight_hash(other.report) == own:
            return other
    return None


def warn_about_same_weights(items: Sequence[SweepItem]) -> Iterator[str]:
    """Warn of items with the same weights: a checkpoint saved twice adds nothing to a trend."""
    for item in items:
        same_weights = find_earlier_model_with_same_weights(item, items)
        if same_weights is not None:
            yield f"{item.name} has the same weights as {same_weights.name}"


def merge_report_warnings(items: Sequence[SweepItem]) -> Iterator[str]:
    """Merge the warnings of the items' reports: each sentence once, with the first item that has
    it."""
    about: dict[str, list[str]] = {}
    for item in items:
        for warning in item.report.warnings if item.report else ():
            about.setdefault(warning, []).append(item.name)
    for warning, names in about.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}: {warning}"


def collect_gate_verdicts(items: Sequence[SweepItem]) -> Iterator[Verdict]:
    """Yield the verdicts of the items' own reports, and a failure for each item without a report."""
    for item in items:
        if item.report is None:
            yield Verdict(item.name, True, item.failure, stopped=True)
        else:
            for one in item.report.verdicts:
                yield replace(one, condition=f"{item.name}: {one.condition}")
