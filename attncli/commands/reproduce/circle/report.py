"""Rows and sentences about the runs of the circle, over their seeds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from attncli.analysis.bootstrap_quantile_errors import bootstrap_quantile_errors
from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.commands.reproduce.circle.arc_positions import RADIUS, STEP
from attncli.commands.reproduce.circle.iterated_network_measurements import (
    ASTRAY,
    STILL,
    TOGETHER,
    CircleRun,
)
from attncli.errors import format_count
from attncli.maths.significance_tests import (
    estimate_standard_deviation_of_share,
    standard_deviation,
)
from attncli.metrics import METRICS
from attncli.records import NOT_APPLICABLE, Definition, Finding, Row, Scalar, View

OWN_METRICS: Mapping[str, Definition] = {
    "collapse_share": Definition(
        "share",
        "Runs whose two points become one: from some step to the last their residual relative to rank 1, "
        f"r = ‖X - 1x̄^T‖ / ‖X‖ in the norm √(‖·‖_1 ‖·‖_∞), stays below {TOGETHER}. They may go on moving together.",
    ),
    "collapse_step": Definition(
        "step", f"First step from which on r stays below {TOGETHER}, over the runs that collapse."
    ),
    "collapse_order": Definition(
        "1",
        "Δlog r of a step / Δlog r of the step before, late in these runs: 3 is doubly exponential, "
        "1 a constant factor a step.",
    ),
    "stop_share": Definition(
        "share",
        f"Runs that stop at a fixed point: from some step to the last neither point moves {STILL} of a taught step. "
        "The two points may stay apart.",
    ),
    "stop_step": Definition(
        "step",
        f"First step from which on no point moves {STILL} of a taught step, over the runs that stop.",
    ),
    "training_loss": Definition(
        "1",
        "Mean squared error of a coordinate over all taught pairs, after training, without dropout; "
        f"{STEP**2 / 2:.2g} if every point stayed where it is, {RADIUS**2 / 2:.2g} if all went to the centre.",
    ),
    "arc_error": Definition(
        "radius",
        "Root mean square, over all steps, of the farther point's distance from its taught place: 0 follows the arcs.",
    ),
    "steps_on_arc": Definition(
        "step", f"Steps before a point is more than {ASTRAY} radii from its taught place."
    ),
}

SHARES = {"collapse_share": "collapse_step", "stop_share": "stop_step"}
"""The share of runs that have such a step."""

MEDIAN = 0.5
QUANTILES = (0.0, MEDIAN, 1.0)
"""Quantiles of a curve over the seeds: where some collapse and others do not, a mean describes
neither."""

LAWS = {1: "by a constant factor a step", 3: "doubly exponentially"}
"""Orders that mean something."""
NEAR = 0.1
"""How far from them an order may be."""

SMALLEST_FLOAT = -308.0
"""Its logarithm. A doubly exponential curve is far below it soon, and would press all others flat."""

FINE = 10
"""The first steps, all of which are reported; after them each reported step is a quarter larger
than the last."""

ZERO = "zero, or rounding leaves nothing of it"

Runs = Mapping[tuple[int, str], Sequence[CircleRun]]
"""By width and variant, one for each seed."""


def select_steps_to_report(steps: int) -> list[int]:
    """The start, the first steps, ever fewer of the later ones, and the last."""
    shown = list(range(min(FINE, steps) + 1))
    while shown[-1] < steps:
        shown.append(min(steps, shown[-1] + shown[-1] // 4))
    return shown


def build_circle_rows(runs: Runs) -> Iterator[Row]:
    for (width, variant), group in runs.items():
        yield from build_circle_summary_rows(group, width, variant)
        for metric in group[0].curves:
            yield from build_quantile_rows_over_seeds(metric, group, width, variant)


def build_circle_summary_rows(
    group: Sequence[CircleRun], width: int, variant: str
) -> Iterator[Row]:
    """One number of each kind for a width and a variant."""
    keys: dict[str, Scalar] = {"width": width}
    for metric, meaning in OWN_METRICS.items():
        if metric in SHARES:
            ended = collect_run_measurements(group, SHARES[metric])
            value = len(ended) / len(group)
            deviation = estimate_standard_deviation_of_share(value, len(group))
            yield Row(
                metric, value, meaning.unit, variant, spread=deviation, n=len(group), keys=keys
            )
        else:
            nothing = f"{NOT_APPLICABLE}no run has a {metric.replace('_', ' ')}"
            values = collect_run_measurements(group, metric)
            yield summarize_values(metric, meaning.unit, values, nothing, keys, variant=variant)


def collect_run_measurements(group: Sequence[CircleRun], number: str) -> list[float]:
    """One of the numbers of every run that has it."""
    found = [getattr(run, number) for run in group]
    return [float(value) for value in found if value is not None]


def build_quantile_rows_over_seeds(
    metric: str, group: Sequence[CircleRun], width: int, variant: str
) -> Iterator[Row]:
    """Quantiles over the seeds after each reported step."""
    unit = METRICS.definition(metric).unit
    curves = [run.curves[metric] for run in group]
    for step in select_steps_to_report(len(curves[0]) - 1):
        values = sorted(nan_to_minus_inf(curve[step]) for curve in curves)
        errors = bootstrap_quantile_errors(values, QUANTILES)
        for quantile in QUANTILES if len(group) > 1 else (MEDIAN,):
            value = values[round(quantile * (len(values) - 1))]
            keys: dict[str, Scalar] = {"width": width, "step": step, "quantile": quantile}
            keys |= {"error": errors[quantile]} if errors else {}
            lost = not math.isfinite(value)
            yield Row(
                metric,
                None if lost else value,
                unit,
                variant,
                n=len(group),
                note=ZERO if lost else None,
                keys=keys,
            )


def nan_to_minus_inf(value: float) -> float:
    """-inf for values lost to rounding: they were below everything resolved."""
    return -math.inf if math.isnan(value) else value


def build_circle_tables(
    metrics: Sequence[str], widths: Sequence[int], steps: int, seeds: int
) -> Iterator[View]:
    """Views of the points' ends, a table for each width; then the curves."""
    over = f" over {seeds} seeds" if seeds > 1 else ""
    yield View("How each variant behaves", "variant", (), findings="behaviour")
    for width in widths:
        title = f"Width {width}: {steps} steps{over}"
        yield View(title, "variant", tuple(OWN_METRICS), where={"width": width})
    for metric in metrics:
        for width in widths:
            title = f"Width {width}: {metric} after each step" + (f", median{over}" if over else "")
            where: dict[str, Scalar] = {"width": width, "quantile": MEDIAN}
            yield View(
                title, "step", (metric,), across="variant", where=where, lowest_drawn=SMALLEST_FLOAT
            )


def build_iteration_findings(runs: Runs) -> Iterator[Finding]:
    """All widths together."""
    for variant in dict.fromkeys(variant for _, variant in runs):
        group = [run for (_, own), found in runs.items() if own == variant for run in found]
        yield Finding(variant, describe_points_under_iteration(group))


def describe_points_under_iteration(group: Sequence[CircleRun]) -> str:
    """`the points become one in 14 of 15 runs, at step 4.1 ± 0.8 (3 to 5), …`"""
    return (
        f"the points become one in {format_run_count_and_step(group, 'collapse_step')}{describe_collapse_rate(group)}; "
        f"they stop in {format_run_count_and_step(group, 'stop_step')}; "
        f"median of the steps on their arcs: {median(collect_run_measurements(group, 'steps_on_arc')):g}"
    )


def describe_collapse_rate(group: Sequence[CircleRun]) -> str:
    """How fast those that collapse do, where most of them have an order."""
    orders = collect_run_measurements(group, "collapse_order")
    if not orders or 2 * len(orders) < len(collect_run_measurements(group, "collapse_step")):
        return ""
    order = median(orders)
    laws = [law for power, law in LAWS.items() if abs(order - power) < NEAR]
    return f", {', '.join(laws)} (order {order:.2f})" if laws else f", at order {order:.2f}"


def format_run_count_and_step(group: Sequence[CircleRun], number_of: str) -> str:
    """`14 of 15 runs, at step 4 ± 1 (3 to 5)`"""
    steps = collect_run_measurements(group, number_of)
    text = f"{len(steps)} of {format_count(len(group), 'run')}"
    if not steps:
        return text
    between = f" ({min(steps):g} to {max(steps):g})" if len(steps) > 1 else ""
    return f"{text}, at step {format_mean_step(steps)}{between}"


def format_mean_step(steps: Sequence[float]) -> str:
    mean = math.fsum(steps) / len(steps)
    deviation = standard_deviation(steps, mean)
    return f"{mean:.0f}" if deviation is None else f"{mean:.0f} ± {deviation:.0f}"


def format_collapse_headline(runs: Runs, published: bool) -> str:
    """Which widths and variants collapse, and at which step."""
    by_width: dict[int, list[str]] = {}
    for (width, variant), group in runs.items():
        by_width.setdefault(width, []).append(f"{variant} {format_collapse_count_and_step(group)}")
    shown = [f"at width {width}: {', '.join(parts)}" for width, parts in by_width.items()]
    runs_of = "Runs as published" if published else "Runs"
    return f"{runs_of} in which the two points become one, {'; '.join(shown)}."


def format_collapse_count_and_step(group: Sequence[CircleRun]) -> str:
    """`5 of 5 (step 4 ± 1)`"""
    steps = collect_run_measurements(group, "collapse_step")
    step = f" (step {format_mean_step(steps)})" if steps else ""
    return f"{len(steps)} of {len(group)}{step}"
