"""Train a labeller on its task, and draw its test questions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.commands.reproduce.sequence_labeller import TokenClassifier, build_token_classifier
from attncli.commands.reproduce.tasks import Examples, Sizes, Task
from attncli.commands.reproduce.training_checkpoints import SavedTraining
from attncli.commands.reproduce.training_loop import (
    Tick,
    Watched,
    do_not_observe_training,
    ignore_progress,
    train_network,
)
from attncli.commands.reproduce.training_plan import TrainingPlan

TRAINING, QUESTIONS, SEEN, _, DROPPED = range(5)
"""Streams of random numbers of one seed; one between them draws paths."""

SEEN_SEQUENCES = 2000
"""Of those like the training's."""

LARGEST_GRADIENT = 1.0


class TrainedLabeller(NamedTuple):
    """A network after its training."""

    network: TokenClassifier
    test_examples: Examples
    train_examples: Examples
    """What it was trained on, or sequences of the same kind."""


def train_labeller(
    task: Task,
    sizes: Sizes,
    plan: TrainingPlan,
    seed: int,
    saved: SavedTraining | None = None,
    advance: Tick = ignore_progress,
    watched: Watched = do_not_observe_training,
) -> TrainedLabeller:
    """The same task, sizes, plan and seed give the same network."""
    network = build_token_classifier(task, sizes, seed)
    test_examples = task.draw(np.random.default_rng([seed, QUESTIONS]), task.test_count)
    batch = make_batch_sampler(task, seed, test_examples)

    def compute_batch_loss(step: int) -> Tensor:
        inputs, labels = map(torch.from_numpy, batch(step))
        with seed_dropout(step, seed, task.dropout):
            answers = network(inputs)
        return F.cross_entropy(answers.flatten(0, 1), labels.flatten())

    first = {"inputs": torch.from_numpy(test_examples.inputs[:1])}
    train_network(
        network,
        compute_batch_loss,
        plan,
        saved,
        advance,
        partial(watched, f"seed{seed}", network, first),
    )
    seen = (
        test_examples
        if task.by_heart
        else task.draw(np.random.default_rng([seed, SEEN]), SEEN_SEQUENCES)
    )
    return TrainedLabeller(network.requires_grad_(False).eval(), test_examples, seen)


@contextmanager
def seed_dropout(step: int, seed: int, rate: float) -> Iterator[None]:
    """Make dropout depend on step and seed only; torch's global generator is unchanged."""
    if not rate:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        drawn = np.random.default_rng([seed, DROPPED, step]).integers(2**63)
        torch.manual_seed(int(drawn))
        yield


def make_batch_sampler(task: Task, seed: int, examples: Examples) -> Callable[[int], Examples]:
    """Return the function that draws the batch of each step."""

    def sample_batch(step: int) -> Examples:
        stream = np.random.default_rng([seed, TRAINING, step])
        if not task.by_heart:
            return task.draw(stream, task.batch)
        chosen = stream.choice(
            task.test_count, size=min(task.batch, task.test_count), replace=False
        )
        return Examples(examples.inputs[chosen], examples.labels[chosen])

    return sample_batch


def build_training_plan(name: str, task: Task, sizes: Sizes, steps: int, seed: int) -> TrainingPlan:
    """A tenth of the steps to warm up, a half to cool down; or all of them to cool down."""
    identity: Mapping[str, str | int | float] = {
        "task": name,
        "layers": sizes.layers,
        "heads": sizes.heads,
        "width": sizes.width,
        "batch": task.batch,
        "sequences": task.test_count if task.by_heart else "new ones",
        "seed": seed,
        **task.distinct_settings,
    }
    return TrainingPlan(
        steps=steps,
        learning_rate=task.learning_rate,
        warm_up=0 if task.falling else steps // 10,
        cool_down=steps - 1 if task.falling else steps // 2,
        largest_gradient=LARGEST_GRADIENT,
        identity=identity,
    )
