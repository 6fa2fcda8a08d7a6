"""`attn reproduce memorise`, `sort` and `convex-hull`: accuracy of a few paths of one length in a
trained network."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch

from attncli.analysis.means_and_confidence_intervals import describe_averaging, summarize_values
from attncli.commands.reproduce.sequence_labelling.path_sum_accuracy import (
    SampledPathSums,
    Sum,
    measure_fixed_attention_accuracies,
    measure_subnetwork_accuracies,
    sample_sums_of_random_paths,
)
from attncli.commands.reproduce.sequence_labelling.report import (
    ACCURACY,
    ADVANTAGE,
    ENTIRE,
    MAJORITY,
    MAJORITY_OF_PLACE,
    OWN_METRICS,
    UP_TO,
    format_path_accuracy_headline,
    short_minus_long_path_accuracy,
    warn_if_task_not_learned,
)
from attncli.commands.reproduce.tasks import Examples, Sizes, Task
from attncli.commands.reproduce.train_labeller import (
    TrainedLabeller,
    build_training_plan,
    train_labeller,
)
from attncli.commands.reproduce.training_checkpoints import SavedTraining
from attncli.commands.reproduce.training_loop import (
    Watched,
    do_not_observe_training,
    limit_torch_threads,
)
from attncli.progress import Progress, ignore_progress, make_progress_counter
from attncli.records import JsonObject, Report, Row, View
from attncli.resource_limits import require_memory

DRAWS = 5
"""Random sums of each kind, as published."""

FLOAT = 4
"""Bytes."""

PATHS = 3
"""Index of a seed's random stream for paths, after those of its training."""

SEQUENCE_COST = 3
"""Cost of a sequence along all paths, in training steps: for the progress bar only."""


@dataclass(frozen=True)
class LabellingRequest:
    """The training, and the measurements after it."""

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
    """Returns the file of a training, or None."""
    training_observer: Watched = do_not_observe_training
    """Callback that observes the network during training."""


class SeedResults(NamedTuple):
    """The results of one seed."""

    of_sums: dict[str, dict[int, float]]
    """Variant → length → accuracy."""
    up_to_length: list[float]
    control_accuracy: dict[str, float]
    """Accuracy of the entire model, and of predictors that ignore the input."""
    completeness: float


def measure_path_accuracies(
    request: LabellingRequest, progress: Progress = ignore_progress
) -> Report:
    """One network for each seed."""
    require_memory_for_training_and_paths(request)
    whole = request.steps + SEQUENCE_COST * request.task.test_count
    count_steps = make_progress_counter(progress, whole * len(request.seeds), "steps")
    found = [train_and_evaluate_paths(request, seed, count_steps) for seed in request.seeds]
    rows = tuple(build_accuracy_rows(request, found))
    return Report(
        study="paths",
        headline=format_path_accuracy_headline(
            request.name, rows, request.evaluations, request.numbers
        ),
        rows=rows,
        metrics=OWN_METRICS,
        source=describe_task_and_training(request),
        input={"sequences": request.task.test_count, "tokens": request.task.length},
        seeds=tuple(request.seeds),
        views=tuple(build_accuracy_tables(request)),
        warnings=tuple(warn_if_task_not_learned(rows)),
    )


def require_memory_for_training_and_paths(request: LabellingRequest) -> None:
    """Check the memory for the weights, Adam's moments, and the states of all paths in a block."""
    task, sizes = request.task, request.sizes
    drawn_paths = DRAWS * sum(request.numbers) * (sizes.layers + 1)
    paths = min(drawn_paths, (1 + sizes.heads) ** sizes.layers)
    weights = 4 * sizes.layers * sizes.width**2
    states = (1 + 2 * paths) * task.length * sizes.width
    logits = paths * task.test_count * task.length * task.labels
    require_memory(
        FLOAT * (4 * weights + 8 * states + logits),
        f"a network of {sizes.layers} layers and width {sizes.width}, followed along {paths:,} paths,",
        "lower `width`, `layers` or `paths_per_sum`",
    )


def train_and_evaluate_paths(
    request: LabellingRequest, seed: int, advance: Callable[[int], None]
) -> SeedResults:
    """Train, then evaluate."""
    task, sizes = request.task, request.sizes
    plan = build_training_plan(request.name, task, sizes, request.steps, seed)
    after = train_labeller(
        task, sizes, plan, seed, request.saved_as(f"seed{seed}"), advance, request.training_observer
    )
    stream = np.random.default_rng([seed, PATHS])
    draws = sample_sums_of_random_paths(sizes.layers, sizes.heads, request.numbers, DRAWS, stream)
    with limit_torch_threads(), torch.no_grad():
        return evaluate_sampled_path_sums(request, after, draws, lambda: advance(SEQUENCE_COST))


def evaluate_sampled_path_sums(
    request: LabellingRequest,
    after: TrainedLabeller,
    draws: SampledPathSums,
    advance: Callable[[], None],
) -> SeedResults:
    inputs, labels = map(torch.from_numpy, after.test_examples)
    frozen = measure_fixed_attention_accuracies(after.network, inputs, labels, draws, advance)
    of_sums: dict[str, dict[int, float]] = {}
    if "frozen" in request.evaluations:
        of_sums |= group_accuracies_by_variant("frozen", frozen.accuracies)
        of_sums["frozen all"] = dict(enumerate(frozen.of_length))
    if "rerun" in request.evaluations:
        of_sums |= group_accuracies_by_variant(
            "rerun", measure_subnetwork_accuracies(after.network, inputs, labels, draws)
        )
    right = (after.network(inputs).argmax(dim=-1) == labels).double()
    return SeedResults(
        of_sums,
        frozen.up_to_length,
        {
            ENTIRE: float(right.mean()),
            **accuracies_of_majority_labels(after.train_examples, after.test_examples),
        },
        frozen.completeness,
    )


def group_accuracies_by_variant(
    evaluation: str, accuracies: Mapping[Sum, float]
) -> dict[str, dict[int, float]]:
    """`frozen 5` → length → accuracy."""
    found: dict[str, dict[int, float]] = {}
    for (number, length), value in accuracies.items():
        found.setdefault(f"{evaluation} {number}", {})[length] = value
    return found


def accuracies_of_majority_labels(seen: Examples, examples: Examples) -> dict[str, float]:
    """Accuracy of the most frequent training label, and of the most frequent one at each position."""
    most = np.bincount(seen.labels.ravel()).argmax()
    of_place = [np.bincount(labels).argmax() for labels in seen.labels.T]
    return {
        MAJORITY: float((examples.labels == most).mean()),
        MAJORITY_OF_PLACE: float((examples.labels == of_place).mean()),
    }


def build_accuracy_rows(request: LabellingRequest, results: Sequence[SeedResults]) -> Iterator[Row]:
    """By variant and length; the spread is that over the seeds."""
    for variant, of_first in results[0].of_sums.items():
        for length in of_first:
            yield build_accuracy_row(
                ACCURACY, [one.of_sums[variant][length] for one in results], variant, length=length
            )
    for name in results[0].control_accuracy:
        yield build_accuracy_row(ACCURACY, [one.control_accuracy[name] for one in results], name)
    for length in range(request.sizes.layers + 1):
        yield build_accuracy_row(
            UP_TO, [one.up_to_length[length] for one in results], None, length=length
        )
    if request.sizes.layers > 1:
        for variant in results[0].of_sums:
            yield build_accuracy_row(
                ADVANTAGE,
                [short_minus_long_path_accuracy(one.of_sums[variant]) for one in results],
                variant,
            )
    yield build_accuracy_row("completeness_error", [one.completeness for one in results], None)


def build_accuracy_row(
    metric: str, values: Sequence[float], variant: str | None, **keys: int
) -> Row:
    return summarize_values(metric, "1", values, "not finite", keys, variant=variant)


def describe_task_and_training(request: LabellingRequest) -> JsonObject:
    """Everything that the networks were made from."""
    plan = asdict(
        build_training_plan(
            request.name, request.task, request.sizes, request.steps, request.seeds[0]
        )
    )
    del plan["identity"]
    return {
        "kind": "trained",
        "task": request.name,
        "definition": request.definition,
        "network": {**asdict(request.sizes), "blocks": "LN(x + Attention(x))"},
        "training": {"optimiser": "Adam", **plan, "batch": request.task.batch},
        **request.task.distinct_settings,
        "draws": DRAWS,
    }


def build_accuracy_tables(request: LabellingRequest) -> Iterator[View]:
    over = describe_averaging(len(request.seeds), "seeds")
    yield View(
        f"{request.name}: accuracy of sums of random paths by length{over}",
        "length",
        (ACCURACY,),
        across="variant",
    )
    yield View("Beside them", "variant", (ACCURACY,), where={"length": ""})
    yield View("All frozen paths up to a length together", "length", (UP_TO,))
    if request.sizes.layers > 1:
        yield View("Do short paths carry more than long ones?", "variant", (ADVANTAGE,))
