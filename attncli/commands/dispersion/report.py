"""`attn dispersion MODEL --lengths …`: how heads' numbers move with the length of the text.

With bounded logits no head stays sharp: its largest weight must fall as 1/n and its entropy rise as ln n (Veličković et al.
2024, "softmax is not enough"). Each head's own slope says how much of that it shows on these lengths.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attncli.analysis.heads.metric_selection import MetricSelection
from attncli.analysis.heads.model_inspection import HeadPlan, inspect_model
from attncli.analysis.heads.report_tables import format_value_range
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.analysis.means_and_confidence_intervals import describe_averaging, summarize_values
from attncli.analysis.rank_collapse.size_sweep import make_progress_of_sweep_point
from attncli.errors import format_count
from attncli.maths.curve_fits.straight_line_slopes import fit_slopes_of_lines
from attncli.maths.number_format import format_short_number
from attncli.metrics.attention import ATTENTION
from attncli.models.inputs.model_input import ModelInput, describe_inputs_besides_token_ids
from attncli.models.loading.loaded_model import LoadedModel
from attncli.progress import Progress, ignore_progress
from attncli.records import (
    NOT_APPLICABLE,
    UNIFORM,
    Definition,
    Finding,
    Report,
    Row,
    RowPlace,
    Scalar,
    View,
)

TOKENS = "tokens"
"""The key of the length."""
SLOPE = "_slope"
LOGARITHMIC = "nats"
"""The unit of metrics that are logarithms already, so that no second logarithm is taken."""
DEFAULT = ("largest_weight", "entropy")
NEAR = 0.9
"""A head whose slope is at least this fraction of uniform attention's counts as dispersing as fast.
"""
STILL = 0.05
"""If uniform attention itself changes by less than this, dispersion is not reported."""


def measure_dispersion(
    checkpoint: LoadedModel,
    subject: PreparedModel,
    texts: Mapping[int, Sequence[ModelInput]],
    plan: HeadPlan,
    progress: Progress = ignore_progress,
) -> Report:
    """`texts`: those of each length, as many and in the same order at all of them."""
    rows: list[Row] = []
    for index, (length, own) in enumerate(texts.items()):
        part = make_progress_of_sweep_point(progress, index, len(texts))
        found = inspect_model(checkpoint, subject, None, own, plan, progress=part)
        rows += [
            replace(row, keys={TOKENS: length, **row.keys})
            for row in found.rows
            if row.head is not None
        ]
    lines = list(build_length_slope_rows(rows, list(texts)))
    findings = tuple(build_length_slope_findings(lines, plan.metrics.heads))
    every = list(texts.values())[-1]
    return Report(
        study="inspect-model sweep",
        headline=f"{checkpoint.identity.get('name') or checkpoint.identity.get('path') or checkpoint.identity.get('class')}: "
        f"tokens {min(texts)} to {max(texts)}; " + "; ".join(f.text for f in findings) + ".",
        rows=(*rows, *lines),
        metrics=build_metric_and_slope_definitions(plan.metrics),
        source=dict(checkpoint.identity),
        input={
            "sweep": TOKENS,
            "points": list(texts),
            "texts": [text.describe_model_input() for text in every],
        },
        seeds=(plan.seed,),
        views=tuple(build_length_slope_tables(lines, plan.metrics.heads, len(every))),
        findings=findings,
        warnings=(*checkpoint.warnings, *describe_inputs_besides_token_ids(every)),
    )


def build_metric_and_slope_definitions(metrics: MetricSelection) -> dict[str, Definition]:
    found = {name: ATTENTION.definition(name) for name in metrics.heads}
    return found | {name + SLOPE: build_slope_metric_definition(name) for name in metrics.heads}


def build_slope_metric_definition(name: str) -> Definition:
    if ATTENTION.declaration_of_entry(name).unit == LOGARITHMIC:
        text = f"Slope of {name} against ln n, least squares over the lengths n: 0 where it does not move."
        return Definition(LOGARITHMIC, text)
    text = f"Exponent e of {name} ~ n^e, least squares in logarithms over the lengths n: 0 where it does not move."
    return Definition("1", text)


def build_length_slope_rows(rows: Sequence[Row], lengths: Sequence[int]) -> Iterator[Row]:
    """Of each head and metric: the mean over the texts of their slopes, the lines' standard error, uniform attention's slope."""
    groups: dict[tuple[str | tuple[str, Scalar], ...], list[Row]] = {}
    for row in rows:
        place = {key: v for key, v in row.coordinates.items() if key != TOKENS}
        groups.setdefault((row.metric, *place.items()), []).append(row)
    places = np.log(np.asarray(lengths, dtype=float))
    for group in groups.values():
        yield build_length_slope_row(group, places)


def build_length_slope_row(group: Sequence[Row], places: np.ndarray) -> Row:
    first = group[0]
    name, unit = first.metric + SLOPE, build_slope_metric_definition(first.metric).unit
    where = {key: v for key, v in first.keys.items() if key in first.coordinates and key != TOKENS}
    at: RowPlace = {"layer": first.layer, "head": first.head}
    curves = [list(row.each) or ([] if row.value is None else [row.value]) for row in group]
    if len(group) < len(places) or any(not curve for curve in curves):
        note = next((row.note for row in group if row.value is None), None)
        return Row(name, None, unit, note=note or "some lengths have no number", keys=where, **at)
    every = transform_metric_to_log_axes(first.metric, np.array(curves).T)
    if every is None:
        note = f"{NOT_APPLICABLE}an exponent is of positive numbers"
        return Row(name, None, unit, note=note, keys=where, **at)
    found = fit_slopes_of_lines(places, every)
    error = math.sqrt(float(np.mean(found.error**2)))
    even = compute_slope_of_uniform_attention(group, places)
    keys = where | ({} if math.isnan(error) else {"error": error}) | even
    return summarize_values(name, unit, found.slope.tolist(), "", keys=keys, **at)


def transform_metric_to_log_axes(metric: str, curves: np.ndarray) -> "np.ndarray | None":
    """[text, length]: the values as plotted against ln n; None where a logarithm is not defined."""
    if ATTENTION.declaration_of_entry(metric).unit == LOGARITHMIC:
        return curves
    return np.log(curves) if (curves > 0.0).all() else None


def compute_slope_of_uniform_attention(
    group: Sequence[Row], places: np.ndarray
) -> dict[str, Scalar]:
    values = [row.keys.get(UNIFORM) for row in group]
    if not all(isinstance(value, float) for value in values):
        return {}
    scaled = transform_metric_to_log_axes(group[0].metric, np.array([values], dtype=float))
    return {} if scaled is None else {UNIFORM: float(fit_slopes_of_lines(places, scaled).slope[0])}


def build_length_slope_findings(lines: Sequence[Row], metrics: Sequence[str]) -> Iterator[Finding]:
    for metric in metrics:
        own = [row for row in lines if row.metric == metric + SLOPE and row.value is not None]
        if own:
            yield Finding(metric, describe_length_slopes(metric, own))


def describe_length_slopes(metric: str, rows: Sequence[Row]) -> str:
    """The middle head and the two ends, or the only head, and how many do as uniform attention does."""
    ordered = sorted(rows, key=lambda row: float(row.value or 0.0))
    low, middle, high = (ordered[place] for place in (0, len(ordered) // 2, -1))
    how = (
        "moves with ln n by"
        if ATTENTION.declaration_of_entry(metric).unit == LOGARITHMIC
        else "goes as n to the"
    )
    ends = f", {format_length_slope(low)} in {format_layer_and_head(low)} to {format_length_slope(high)} in {format_layer_and_head(high)}"
    which = f"the middle head{ends}" if len(rows) > 1 else f"head {format_layer_and_head(middle)}"
    text = f"{metric} {how} {format_length_slope(middle)} in {which}"
    even = [row for row in rows if abs(float(row.keys.get(UNIFORM, 0.0))) > STILL]
    if not even:
        return text
    as_fast = sum(float(row.value or 0.0) / float(row.keys[UNIFORM]) >= NEAR for row in even)
    null = f"{float(even[0].keys[UNIFORM]):.2f}"
    return f"{text}; uniform attention: {null}, {as_fast} of {format_count(len(even), 'head')} disperse{'s' if as_fast == 1 else ''} as fast"


def format_length_slope(row: Row) -> str:
    error = row.keys.get("error")
    value = f"{float(row.value or 0.0):.2f}"
    return f"{value} ± {format_short_number(float(error), 2)}" if error is not None else value


def format_layer_and_head(row: Row) -> str:
    return f"{row.layer}.{row.head}"


def build_length_slope_tables(
    lines: Sequence[Row], metrics: Sequence[str], texts: int
) -> Iterator[View]:
    over = describe_averaging(texts, "texts")
    for metric in metrics:
        what = (
            "against ln n"
            if ATTENTION.declaration_of_entry(metric).unit == LOGARITHMIC
            else "exponent of n"
        )
        own = [row for row in lines if row.metric == metric + SLOPE]
        errors = [float(row.keys["error"]) for row in own if "error" in row.keys]
        known = f"; standard errors {format_value_range(errors)}" if errors else ""
        yield View(f"{metric}: {what}{over}{known}", "layer", (metric + SLOPE,), "head")
