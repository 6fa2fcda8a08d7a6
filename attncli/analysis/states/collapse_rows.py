"""Rows of a residual's curve over layers, of networks and models: what was measured of its states, and its convergence order."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from attncli.analysis.states.state_metrics import NO_STEP, metric_definition, select_step_metrics
from attncli.analysis.states.trajectories import RESIDUAL, Trajectory
from attncli.analysis.statistics import summarize_values
from attncli.maths.curve_fits.convergence import convergence_orders
from attncli.records import NOT_APPLICABLE, Definition, Row, Scalar, View

ORDER = Definition(
    "1",
    "p_l = Δlog r_l / Δlog r_(l-1) over states l-2, l-1, l: 3 is doubly exponential, 1 a constant factor.",
)

BLOCKS = "blocks"
"""The key of how many blocks lie between two states that a metric compares, where that is not one."""

BEYOND = "zero, or beyond 10^±(10^308)"

REGIMES = View(title="How each variant behaves", down="variant", metrics=(), findings="regime")


def build_measured_rows(
    variant: str, trajectories: Sequence[Trajectory], keys: Mapping[str, Scalar], over: int = 1
) -> Iterator[Row]:
    """Rows of the measured states; metrics of steps have none for the first states."""
    for metric in trajectories[0].values:
        states = zip(*(trajectory.values[metric] for trajectory in trajectories), strict=True)
        unit, of_step = metric_definition(metric).unit, bool(select_step_metrics([metric]))
        at = {**keys, BLOCKS: over} if of_step and over > 1 else keys
        for layer, values in enumerate(states):
            if of_step and layer < over:
                continue
            row = summarize_values(metric, unit, values, BEYOND, at, variant=variant, layer=layer)
            yield replace(row, note=NO_STEP) if of_step and row.value is None else row


def build_convergence_order_rows(
    variant: str, trajectories: Sequence[Trajectory], keys: Mapping[str, Scalar]
) -> Iterator[Row]:
    curves = [trajectory.values[RESIDUAL] for trajectory in trajectories]
    for layer, values in enumerate(zip(*map(convergence_orders, curves), strict=True)):
        why = NOT_APPLICABLE + explain_missing_convergence_order(layer, curves)
        yield summarize_values("order", "1", values, why, keys, variant=variant, layer=layer)


def explain_missing_convergence_order(layer: int, curves: Sequence[Sequence[float]]) -> str:
    """Why the order is missing after this layer, from the curves without one."""
    if layer < 2:
        return "needs two layers before it"
    three = (value for curve in curves for value in curve[layer - 2 : layer + 1])
    if all(map(math.isfinite, three)):
        return "the residual does not fall steadily"
    return "needs the residuals of three layers in a row"
