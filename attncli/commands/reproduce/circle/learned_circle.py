"""`attn reproduce circle`: a layer taught to move two points along a circle, applied again and again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attncli.analysis import Progress, no_progress
from attncli.analysis.states.trajectories import RESIDUAL
from attncli.commands.reproduce.circle.arcs import AROUND, PAIRS, RADIUS, places
from attncli.commands.reproduce.circle.circle_network import (
    BATCH,
    CircleNetworks,
    loss_of_steps,
    training_losses,
)
from attncli.commands.reproduce.circle.design import DROPOUT, HEADS, Design
from attncli.commands.reproduce.circle.experiment import LEARNING_RATE, Experiment
from attncli.commands.reproduce.circle.first_circle import FirstCircle, taught_pairs
from attncli.commands.reproduce.circle.recurrences import CircleRun, follow
from attncli.commands.reproduce.circle.report import (
    OWN_METRICS,
    Runs,
    all_rows,
    findings,
    headline,
    views,
)
from attncli.commands.reproduce.saving import SavedTraining
from attncli.commands.reproduce.training import AfterStep, Tick, Watched, nobody, train
from attncli.limits import require_memory
from attncli.maths.residuals.scaled import Array
from attncli.metrics import definition
from attncli.networks.variants import of_network
from attncli.records import Definition, Report, Track

PUBLISHED = (
    "as published the layer's own skip is never removed: 'skip' means that the network is given the sum of all "
    f"predictions so far; training has dropout {DROPOUT}."
)

Designs = Mapping[tuple[int, str], Design]
"""By width and variant."""

SavedAs = Callable[[str], SavedTraining | None]
"""Where the training of this name is kept."""


def not_kept(name: str) -> None:
    """For trainings that nobody wants to go on with."""


def circle(
    designs: Designs,
    experiment: Experiment,
    metrics: Sequence[str],
    published: bool = False,
    saved_as: SavedAs = not_kept,
    watched: Watched = nobody,
    progress: Progress = no_progress,
) -> Report:
    """Train every network of every seed, apply it to its own output, and say which of them collapse."""
    require_room(designs, len(experiment.seeds))
    wanted = list(dict.fromkeys([RESIDUAL, *metrics]))
    runs = all_runs(designs, experiment, wanted, saved_as, watched, progress)
    widths = list(dict.fromkeys(width for width, _ in designs))
    return Report(
        study="rank-collapse circle",
        headline=headline(runs, published),
        rows=tuple(all_rows(runs)),
        metrics=definitions(wanted),
        source=described(designs, experiment, published),
        input={"task": "circle", "radius": RADIUS, "steps_around": AROUND, "taught_pairs": PAIRS},
        seeds=tuple(experiment.seeds),
        views=tuple(views(wanted, widths, experiment.steps, len(experiment.seeds))),
        findings=tuple(findings(runs)),
        warnings=(PUBLISHED,) if published else (),
        tracks=tuple(tracks(runs)),
    )


def tracks(runs: Runs) -> Iterator[Track]:
    """Of the first seed: a line for each width, a column for each variant, beside the arcs that were taught."""
    arcs = ways_of(places(PAIRS + 1))
    for (width, variant), (first, *_) in runs.items():
        if first.places is not None:
            yield Track(f"width {width}", variant, ways_of(first.places), arcs)


def ways_of(points: Array) -> tuple[tuple[tuple[float, float], ...], ...]:
    """[step, point, 2] as one way for each point."""
    return tuple(tuple((float(x), float(y)) for x, y in way) for way in np.swapaxes(points, 0, 1))


def require_room(designs: Designs, seeds: int) -> None:
    """Weights, gradients and two moments in float32, and the weights once more in float64."""
    largest = max(design.spec.layer_bytes for design in designs.values())
    require_memory(3 * seeds * largest, "This training", "lower `width` or `seeds`")


def all_runs(
    designs: Designs,
    experiment: Experiment,
    metrics: Sequence[str],
    saved_as: SavedAs,
    watched: Watched,
    progress: Progress,
) -> Runs:
    """One training for all seeds of a width and a variant, then one recurrence for each of them."""
    each = experiment.training_steps + len(experiment.seeds) * (experiment.steps + 1)
    done = 0

    def tick(steps: int) -> None:
        nonlocal done
        done += steps
        progress(done, each * len(designs), "steps")

    runs = {}
    for (width, variant), design in designs.items():
        name = f"{variant}-width{width}"
        seen = partial(watched, name)
        runs[width, variant] = runs_of(design, experiment, metrics, saved_as(name), seen, tick)
    return runs


def runs_of(
    design: Design,
    experiment: Experiment,
    metrics: Sequence[str],
    saved: SavedTraining | None,
    watched: Callable[..., AfterStep],
    tick: Tick,
) -> list[CircleRun]:
    """Of one width and variant, a run for each seed."""
    network = CircleNetworks(design, experiment.seeds)
    loss_of_step = loss_of_steps(network, experiment.seeds)
    watch = partial(watched, FirstCircle(network), taught_pairs(network))
    train(network, loss_of_step, experiment.plan(design), saved, tick, watch)
    losses = training_losses(network, experiment.seeds)
    return [
        follow(design, network.weights(index), loss, experiment.steps, metrics, tick)
        for index, loss in enumerate(losses)
    ]


def definitions(metrics: Sequence[str]) -> dict[str, Definition]:
    return dict(OWN_METRICS) | {name: definition(name) for name in metrics}


def described(designs: Designs, experiment: Experiment, published: bool) -> dict[str, Any]:
    """Everything needed to know what was trained, and exactly what each variant has."""
    variants = {
        variant: {
            **of_network(design.switches),
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
