"""One trained network applied again and again: when its two points meet, when they stop, how far from the arcs they are."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attncli.analysis.rank_collapse.metrics_over_layers import RESIDUAL
from attncli.commands.reproduce.circle.arc_positions import RADIUS, STEP, compute_arc_positions
from attncli.commands.reproduce.circle.iterated_predictions import Weights, iterate_predictions
from attncli.commands.reproduce.circle.network_design import NetworkDesign
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.curve_fits.convergence_rates import estimate_late_convergence_order
from attncli.metrics import METRICS

TOGETHER = 0.01
"""Residual below which two points are one: at the size of the circle, less than a line's width
apart. Which runs collapse does not depend on it: after the default training, none of 60 had its
lowest residual between 10^-6 and 0.5."""
STILL = 0.01
"""Share of the taught step below which a pair counts as standing still."""
ASTRAY = 0.1
"""Distance from the taught position, in radii, from which on a point has left its arc."""


@dataclass(frozen=True)
class CircleRun:
    """The measurements on one network."""

    training_loss: float
    curves: Mapping[str, Sequence[float]]
    """Every metric at the start and after every step."""
    moves: Sequence[float]
    """How far the pair went in each step, in taught steps."""
    distances: Sequence[float]
    """The farther point's distance from its taught position after every step, in radii."""
    places: Array | None = None
    """[step, point, 2]"""

    @property
    def collapse_step(self) -> int | None:
        return first_index_true_to_end(
            [value < math.log10(TOGETHER) for value in self.curves[RESIDUAL]]
        )

    @property
    def stop_step(self) -> int | None:
        return first_index_true_to_end([move < STILL for move in self.moves])

    @property
    def collapse_order(self) -> float | None:
        """Order of convergence of the residual from there on, as far as it is resolved."""
        resolved = [value for value in self.curves[RESIDUAL] if math.isfinite(value)]
        return None if self.collapse_step is None else estimate_late_convergence_order(resolved)

    @property
    def arc_error(self) -> float:
        return math.sqrt(math.fsum(d * d for d in self.distances) / len(self.distances))

    @property
    def steps_on_arc(self) -> int:
        beyond = (step for step, far in enumerate(self.distances) if far > ASTRAY)
        return next(beyond, len(self.distances) - 1)


def first_index_true_to_end(holds: Sequence[bool]) -> int | None:
    """The first index from which on all are true."""
    if not holds[-1]:
        return None
    return max((place + 1 for place, holding in enumerate(holds) if not holding), default=0)


def iterate_and_measure_network(
    design: NetworkDesign,
    weights: Weights,
    training_loss: float,
    steps: int,
    metrics: Sequence[str],
    advance: Callable[[int], None],
) -> CircleRun:
    """Apply the network this many times."""
    measures = {name: METRICS[name] for name in metrics}
    curves: dict[str, list[float]] = {name: [] for name in metrics}
    found: list[Array] = []
    for state in iterate_predictions(design, weights, steps):
        for name, measure in measures.items():
            curves[name].append(measure(state))
        found.append(state.states.value())
        advance(1)
    points = np.stack(found)
    distances = (
        euclidean_norms_along_last_axis(points - compute_arc_positions(steps + 1)).max(axis=1)
        / RADIUS
    )
    moves = euclidean_norms_along_last_axis(np.diff(points, axis=0)).max(axis=1) / STEP
    return CircleRun(training_loss, curves, moves.tolist(), distances.tolist(), points)


def euclidean_norms_along_last_axis(vectors: Array) -> Array:
    """Lengths of the vectors along the last axis."""
    found: Array = np.sqrt(np.square(vectors).sum(axis=-1))
    return found
