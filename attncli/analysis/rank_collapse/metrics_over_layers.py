"""What a variant of a network or a model measures at each of its states: the metrics by name, their values over the
layers, and the rows of these."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.curve_fits.convergence_rates import compute_convergence_orders
from attncli.metrics import METRICS, Metric
from attncli.metrics.steps import STEPS, StepMetric
from attncli.records import NOT_APPLICABLE, Definition, Row, Scalar, View

RESIDUAL, RESIDUAL_NORM = "log10_residual", "log10_residual_norm"
"""The metrics that regimes and the comparison with the bound need."""

EXACT = "exact"
"""The arithmetic that computes common row and residual separately."""


ORDER = Definition(
    "1",
    "p_l = Δlog r_l / Δlog r_(l-1) over states l-2, l-1, l: 3 is doubly exponential, 1 a constant factor.",
)

BLOCKS = "blocks"
"""The key of how many blocks lie between two states that a metric compares, where that is not one."""

BEYOND = "zero, or beyond 10^±(10^308)"

REGIMES = View(title="How each variant behaves", down="variant", metrics=(), findings="regime")


NO_STEP = (
    f"{NOT_APPLICABLE}the block's input and output are not the same tokens, or one of them is zero"
)

GROUPS: Mapping[str, Sequence[str]] = {
    "depth": (
        "block_influence",
        "angular_distance",
        "update_ratio",
        "log10_variance",
        "effective_rank_90",
        "clusters",
        "cluster_energy",
    ),
    "spike": ("spike_ratio", "spike_features", "spike_turn"),
}
"""Groups of metrics: the effect of one more layer; how a token comes to dominate, and for how long.
"""


def find_state_or_step_metric_definition(name: str) -> Definition:
    return STEPS.definition(name) if name in STEPS.names() else METRICS.definition(name)


class StateMetrics:
    """The metrics of one run."""

    def __init__(self, metrics: Iterable[str]) -> None:
        known = set(STEPS.names())
        chosen = list(metrics)
        self.of_state: Mapping[str, Metric] = {n: METRICS[n] for n in chosen if n not in known}
        self.of_step: Mapping[str, StepMetric] = {n: STEPS[n] for n in chosen if n in known}

    @property
    def metric_names(self) -> list[str]:
        return [*self.of_state, *self.of_step]

    def measure_state(self, state: SplitState) -> dict[str, float]:
        return {name: measure(state) for name, measure in self.of_state.items()}

    def measure_step(self, before: SplitState | None, after: SplitState) -> dict[str, float]:
        """nan where there is no state before, or one of other tokens."""
        alike = before is not None and before.varying.mantissa.shape == after.varying.mantissa.shape
        return {
            name: measure(before, after) if before is not None and alike else math.nan
            for name, measure in self.of_step.items()
        }


@dataclass(frozen=True)
class Trajectory:
    """One variant of one network: every metric at states 0 … L.

    -inf: exactly zero, or below the range of log10 itself; nan: unknown, because tokens coincide to
    the last bit, or for the reason in `unknown`.
    """

    values: Mapping[str, list[float]]
    log10_constants: list[float]
    """Per layer, log10 of the constant K in the bound; empty where the theorem does not apply."""
    arithmetic: str = ""
    """Of a model's run: `EXACT`, or the type of the plain numbers."""
    why_plain: str = ""
    """Why it is not exact."""
    uncertain: Mapping[str, list[float]] = field(default_factory=dict)
    """How far rounding may have moved each number, of a run in plain numbers."""
    unknown: Mapping[str, list[str]] = field(default_factory=dict)
    """Why a number is not known; empty where it is."""
    log10_logit_ranges: list[float] = field(default_factory=list)
    """Per layer, log10 of the range of a row's logits due to the tokens' residuals; empty if not
    requested."""


Ensemble = Mapping[str, Sequence[Trajectory]]
"""Per variant, one trajectory for each seed."""


def build_state_metric_rows(
    variant: str, trajectories: Sequence[Trajectory], keys: Mapping[str, Scalar], over: int = 1
) -> Iterator[Row]:
    """Rows of the measured states; metrics of steps have none for the first states."""
    for metric in trajectories[0].values:
        states = zip(*(trajectory.values[metric] for trajectory in trajectories), strict=True)
        unit, of_step = find_state_or_step_metric_definition(metric).unit, metric in STEPS.names()
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
    for layer, values in enumerate(zip(*map(compute_convergence_orders, curves), strict=True)):
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
