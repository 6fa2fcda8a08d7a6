"""`attn reproduce memorise`, `sort` and `convex-hull`: what can a few paths of one length do alone, in a network trained here?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from attncli.analysis import Progress, no_progress
from attncli.analysis.statistics import averaged, summary_row
from attncli.commands.reproduce.labelling.path_sums import (
    Draws,
    Sum,
    drawn,
    frozen_accuracies,
    rerun_accuracies,
)
from attncli.commands.reproduce.labelling.report import (
    ACCURACY,
    ADVANTAGE,
    ENTIRE,
    MAJORITY,
    MAJORITY_OF_PLACE,
    OWN_METRICS,
    UP_TO,
    headline,
    short_minus_long,
    warnings,
)
from attncli.commands.reproduce.learning import Learned, learned, plan_of
from attncli.commands.reproduce.saving import SavedTraining
from attncli.commands.reproduce.tasks import Examples, Sizes, Task
from attncli.commands.reproduce.training import Watched, nobody, one_thread
from attncli.limits import require_memory
from attncli.records import Report, Row, View

DRAWS = 5
"""Random sums of each kind, as published."""

FLOAT = 4
"""Bytes."""

PATHS = 3
"""Stream of random numbers of a seed, after those of its training."""

SEQUENCE_COST = 3
"""A sequence followed along all paths, in steps of training: for the progress bar alone."""


@dataclass(frozen=True)
class Questions:
    """What is trained, and what is asked of it."""

    name: str
    definition: str
    task: Task
    sizes: Sizes
    steps: int
    evaluations: Sequence[str]
    numbers: Sequence[int]
    """Of paths that are added."""
    seeds: Sequence[int]
    saved_as: Callable[[str], SavedTraining | None] = lambda name: None
    """Where a training is kept."""
    watched: Watched = nobody
    """Who looks at the network while it is trained."""


class Answers(NamedTuple):
    """Of one seed."""

    of_sums: dict[str, dict[int, float]]
    """Variant → length → accuracy."""
    up_to_length: list[float]
    beside: dict[str, float]
    """The entire model, and predictors that do not look."""
    completeness: float


def task_paths(asked: Questions, progress: Progress = no_progress) -> Report:
    """One network for each seed."""
    require_room(asked)
    whole = asked.steps + SEQUENCE_COST * asked.task.asked
    done = 0

    def tick(units: int) -> None:
        nonlocal done
        done += units
        progress(done, whole * len(asked.seeds), "steps")

    found = [answers(asked, seed, tick) for seed in asked.seeds]
    rows = tuple(rows_of(asked, found))
    return Report(
        study="paths",
        headline=headline(asked.name, rows, asked.evaluations, asked.numbers),
        rows=rows,
        metrics=OWN_METRICS,
        source=source(asked),
        input={"sequences": asked.task.asked, "tokens": asked.task.length},
        seeds=tuple(asked.seeds),
        views=tuple(views(asked)),
        warnings=tuple(warnings(rows)),
    )


def require_room(asked: Questions) -> None:
    """For the weights with what Adam keeps of them, and for all paths' states on their way through a block."""
    task, sizes = asked.task, asked.sizes
    drawn_paths = DRAWS * sum(asked.numbers) * (sizes.layers + 1)
    paths = min(drawn_paths, (1 + sizes.heads) ** sizes.layers)
    weights = 4 * sizes.layers * sizes.width**2
    states = (1 + 2 * paths) * task.length * sizes.width
    logits = paths * task.asked * task.length * task.labels
    require_memory(
        FLOAT * (4 * weights + 8 * states + logits),
        f"a network of {sizes.layers} layers and width {sizes.width}, followed along {paths:,} paths,",
        "lower `width`, `layers` or `paths_per_sum`",
    )


def answers(asked: Questions, seed: int, tick: Callable[[int], None]) -> Answers:
    """Train, then evaluate."""
    task, sizes = asked.task, asked.sizes
    plan = plan_of(asked.name, task, sizes, asked.steps, seed)
    after = learned(task, sizes, plan, seed, asked.saved_as(f"seed{seed}"), tick, asked.watched)
    stream = np.random.default_rng([seed, PATHS])
    draws = drawn(sizes.layers, sizes.heads, asked.numbers, DRAWS, stream)
    with one_thread(), torch.no_grad():
        return evaluated(asked, after, draws, lambda: tick(SEQUENCE_COST))


def evaluated(asked: Questions, after: Learned, draws: Draws, tick: Callable[[], None]) -> Answers:
    inputs, labels = map(torch.from_numpy, after.asked)
    frozen = frozen_accuracies(after.network, inputs, labels, draws, tick)
    of_sums: dict[str, dict[int, float]] = {}
    if "frozen" in asked.evaluations:
        of_sums |= by_variant("frozen", frozen.accuracies)
        of_sums["frozen all"] = dict(enumerate(frozen.of_length))
    if "rerun" in asked.evaluations:
        of_sums |= by_variant("rerun", rerun_accuracies(after.network, inputs, labels, draws))
    right = (after.network(inputs).argmax(dim=-1) == labels).double()
    return Answers(
        of_sums,
        frozen.up_to_length,
        {ENTIRE: float(right.mean()), **without_looking(after.seen, after.asked)},
        frozen.completeness,
    )


def by_variant(evaluation: str, accuracies: Mapping[Sum, float]) -> dict[str, dict[int, float]]:
    """`frozen 5` → length → accuracy."""
    found: dict[str, dict[int, float]] = {}
    for (number, length), value in accuracies.items():
        found.setdefault(f"{evaluation} {number}", {})[length] = value
    return found


def without_looking(seen: Examples, asked: Examples) -> dict[str, float]:
    """Always the most frequent label of the training; and always that of the token's place."""
    most = np.bincount(seen.labels.ravel()).argmax()
    of_place = [np.bincount(labels).argmax() for labels in seen.labels.T]
    return {
        MAJORITY: float((asked.labels == most).mean()),
        MAJORITY_OF_PLACE: float((asked.labels == of_place).mean()),
    }


def rows_of(asked: Questions, found: Sequence[Answers]) -> Iterator[Row]:
    """By variant and length; the spread is that over the seeds."""
    for variant, of_first in found[0].of_sums.items():
        for length in of_first:
            yield row(
                ACCURACY, [one.of_sums[variant][length] for one in found], variant, length=length
            )
    for name in found[0].beside:
        yield row(ACCURACY, [one.beside[name] for one in found], name)
    for length in range(asked.sizes.layers + 1):
        yield row(UP_TO, [one.up_to_length[length] for one in found], None, length=length)
    if asked.sizes.layers > 1:
        for variant in found[0].of_sums:
            yield row(ADVANTAGE, [short_minus_long(one.of_sums[variant]) for one in found], variant)
    yield row("completeness_error", [one.completeness for one in found], None)


def row(metric: str, values: Sequence[float], variant: str | None, **keys: int) -> Row:
    return summary_row(metric, "1", values, "not finite", keys, variant=variant)


def source(asked: Questions) -> dict[str, Any]:
    """All that the networks were made from."""
    plan = asdict(plan_of(asked.name, asked.task, asked.sizes, asked.steps, asked.seeds[0]))
    del plan["identity"]
    return {
        "kind": "trained",
        "task": asked.name,
        "definition": asked.definition,
        "network": {**asdict(asked.sizes), "blocks": "LN(x + Attention(x))"},
        "training": {"optimiser": "Adam", **plan, "batch": asked.task.batch},
        **asked.task.told_apart,
        "draws": DRAWS,
    }


def views(asked: Questions) -> Iterator[View]:
    over = averaged(len(asked.seeds), "seeds")
    yield View(
        f"{asked.name}: accuracy of sums of random paths by length{over}",
        "length",
        (ACCURACY,),
        across="variant",
    )
    yield View("Beside them", "variant", (ACCURACY,), where={"length": ""})
    yield View("All frozen paths up to a length together", "length", (UP_TO,))
    if asked.sizes.layers > 1:
        yield View("Do short paths carry more than long ones?", "variant", (ADVANTAGE,))
