"""`attn reproduce circle`: a layer taught to move two points along a circle, applied again and again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from attncli.analysis.rank_collapse.metrics_over_layers import RESIDUAL
from attncli.commands.reproduce.circle.arc_positions import (
    AROUND,
    PAIRS,
    RADIUS,
    compute_arc_positions,
)
from attncli.commands.reproduce.circle.circle_network import (
    BATCH,
    BatchedCircleNetworks,
    build_training_loss,
    compute_training_losses,
)
from attncli.commands.reproduce.circle.experiment_settings import LEARNING_RATE, Experiment
from attncli.commands.reproduce.circle.iterated_network_measurements import (
    CircleRun,
    iterate_and_measure_network,
)
from attncli.commands.reproduce.circle.network_design import DROPOUT, HEADS, NetworkDesign
from attncli.commands.reproduce.circle.network_for_training_monitor import (
    FirstCircle,
    build_arc_training_pairs,
)
from attncli.commands.reproduce.circle.report import (
    OWN_METRICS,
    Runs,
    build_circle_rows,
    build_circle_tables,
    build_iteration_findings,
    format_collapse_headline,
)
from attncli.commands.reproduce.training_checkpoints import SavedTraining
from attncli.commands.reproduce.training_loop import (
    AfterStep,
    Tick,
    Watched,
    do_not_observe_training,
    train_network,
)
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.metrics import METRICS
from attncli.networks.ablation_variants import select_switches_of_networks
from attncli.progress import Progress, ignore_progress, make_progress_counter
from attncli.records import Definition, JsonObject, PointTrack, Report
from attncli.resource_limits import require_memory

PUBLISHED = (
    "as published the layer's own skip is never removed: 'skip' means that the network is given the sum of all "
    f"predictions so far; training has dropout {DROPOUT}."
)

Designs = Mapping[tuple[int, str], NetworkDesign]
"""By width and variant."""

SavedAs = Callable[[str], SavedTraining | None]
"""Returns the file of the training of this name, or None."""


def do_not_save_training(name: str) -> None:
    """Save no training."""


def train_and_measure_circle_networks(
    designs: Designs,
    experiment: Experiment,
    metrics: Sequence[str],
    published: bool = False,
    saved_as: SavedAs = do_not_save_training,
    watched: Watched = do_not_observe_training,
    progress: Progress = ignore_progress,
) -> Report:
    """Train every network of every seed, apply it to its own output, and report which of them
    collapse."""
    require_memory_for_training(designs, len(experiment.seeds))
    measured = list(dict.fromkeys([RESIDUAL, *metrics]))
    runs = train_and_iterate_networks(designs, experiment, measured, saved_as, watched, progress)
    widths = list(dict.fromkeys(width for width, _ in designs))
    return Report(
        study="rank-collapse circle",
        headline=format_collapse_headline(runs, published),
        rows=tuple(build_circle_rows(runs)),
        metrics=circle_metric_definitions(measured),
        source=describe_circle_training(designs, experiment, published),
        input={"task": "circle", "radius": RADIUS, "steps_around": AROUND, "taught_pairs": PAIRS},
        seeds=tuple(experiment.seeds),
        views=tuple(build_circle_tables(measured, widths, experiment.steps, len(experiment.seeds))),
        findings=tuple(build_iteration_findings(runs)),
        warnings=(PUBLISHED,) if published else (),
        tracks=tuple(build_point_trajectories(runs)),
    )


def build_point_trajectories(runs: Runs) -> Iterator[PointTrack]:
    """Tracks of the first seed: a line for each width, a column for each variant, with the taught
    arcs."""
    arcs = to_trajectory_per_point(compute_arc_positions(PAIRS + 1))
    for (width, variant), (first, *_) in runs.items():
        if first.places is not None:
            yield PointTrack(f"width {width}", variant, to_trajectory_per_point(first.places), arcs)


def to_trajectory_per_point(points: Array) -> tuple[tuple[tuple[float, float], ...], ...]:
    """[step, point, 2] as one way for each point."""
    return tuple(tuple((float(x), float(y)) for x, y in way) for way in np.swapaxes(points, 0, 1))


def require_memory_for_training(designs: Designs, seeds: int) -> None:
    """Weights, gradients and two moments in float32, and the weights once more in float64."""
    largest = max(design.synthetic_network_spec.layer_weight_bytes for design in designs.values())
    require_memory(3 * seeds * largest, "This training", "lower `width` or `seeds`")


def train_and_iterate_networks(
    designs: Designs,
    experiment: Experiment,
    metrics: Sequence[str],
    saved_as: SavedAs,
    watched: Watched,
    progress: Progress,
) -> Runs:
    """One training for all seeds of a width and a variant, then one recurrence for each of them."""
    each = experiment.training_steps + len(experiment.seeds) * (experiment.steps + 1)
    count_steps = make_progress_counter(progress, each * len(designs), "steps")
    runs = {}
    for (width, variant), design in designs.items():
        name = f"{variant}-width{width}"
        seen = partial(watched, name)
        runs[width, variant] = train_and_iterate_network(
            design, experiment, metrics, saved_as(name), seen, count_steps
        )
    return runs


def train_and_iterate_network(
    design: NetworkDesign,
    experiment: Experiment,
    metrics: Sequence[str],
    saved: SavedTraining | None,
    watched: Callable[..., AfterStep],
    advance: Tick,
) -> list[CircleRun]:
    """Run all seeds of one width and variant."""
    network = BatchedCircleNetworks(design, experiment.seeds)
    loss_of_step = build_training_loss(network, experiment.seeds)
    watch = partial(watched, FirstCircle(network), build_arc_training_pairs(network))
    train_network(
        network, loss_of_step, experiment.build_training_plan(design), saved, advance, watch
    )
    losses = compute_training_losses(network, experiment.seeds)
    return [
        iterate_and_measure_network(
            design, network.weights_of_seed(index), loss, experiment.steps, metrics, advance
        )
        for index, loss in enumerate(losses)
    ]


def circle_metric_definitions(metrics: Sequence[str]) -> dict[str, Definition]:
    return dict(OWN_METRICS) | {name: METRICS.definition(name) for name in metrics}


def describe_circle_training(
    designs: Designs, experiment: Experiment, published: bool
) -> JsonObject:
    """Everything that defines the training, and the exact parts of each variant."""
    variants = {
        variant: {
            **select_switches_of_networks(design.switches),
            "running_sum": design.running_sum,
            "dropout": design.dropout,
        }
        for (_, variant), design in designs.items()
    }
    return {
        "kind": "trained here",
        "as_published": published,
        "heads": HEADS,
        "training": {
            "steps": experiment.training_steps,
            "learning_rate": LEARNING_RATE,
            "batch": BATCH,
        },
        "recurrence": experiment.steps,
        "variants": variants,
    }
