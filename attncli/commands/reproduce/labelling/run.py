"""From the options of `attn paths --task` to a study."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attncli.commands.reproduce.options import (
    TrainingOptions,
    task_option,
    trainings_in,
    whole_numbers,
    within,
)
from attncli.commands.reproduce.task_callback import watching
from attncli.errors import UsageError, said_of, unknown_name
from attncli.networks.spec import NetworkSpec
from attncli.options.completion import completion
from attncli.options.shared import NetworkOptions, RunOptions, separated
from attncli.registry import Registry

if TYPE_CHECKING:
    from attncli.commands.reproduce.tasks import Sizes, Task
    from attncli.gates import Condition
    from attncli.records import Report

TASKS = Registry("task", "attncli.commands.reproduce.tasks")

SIZES = ("layers", "heads", "width")
"""Of the network options those that these networks have."""

MOST_PATHS, MOST_STEPS = 1000, 1_000_000
MEMORISE = "memorise"
MOST_SEQUENCES, MOST_LENGTH = 100_000, 4096


@dataclass(frozen=True)
class PathTaskOptions:
    """A task, and what is done with the paths of the network that has learned it."""

    task: Annotated[
        str | None,
        task_option(
            metavar="memorise|sort|convex-hull",
            complete=completion(TASKS.names),
            help=(
                "Train networks on this task, one for each seed (sizes of its own, or --layers, --heads and --width): "
                "what do a few paths of one length do alone?"
            ),
        ),
    ] = None
    evaluate: Annotated[
        list[str],
        task_option(
            metavar="frozen,rerun",
            help=(
                "Keep the attention of the full pass (frozen), or run sub-networks on their own, as published "
                "(rerun). [default: both]"
            ),
        ),
    ] = field(default_factory=list)
    paths_per_sum: Annotated[
        list[str],
        task_option(metavar="N,…", help="How many random paths are summed. [default: 5,20]"),
    ] = field(default_factory=list)

    sequences: Annotated[
        int | None,
        task_option(metavar="N", help="Number of sequences that `memorise` learns. [default: 100]"),
    ] = None
    length: Annotated[
        int | None,
        task_option(metavar="N", help="Tokens per sequence of `memorise`. [default: 16]"),
    ] = None
    tokens_from: Annotated[
        Path | None,
        task_option(
            metavar="FILE",
            help=(
                "Tokens of `memorise`: the words of a text, or token ids. [default: random words, the r-th as "
                "frequent as 1/r]"
            ),
        ),
    ] = None
    as_published: Annotated[
        bool,
        task_option(
            "--as-published",
            help=(
                "Run `memorise` as the released script does: 500 × 128 tokens of --tokens-from, width 250, dropout "
                ".1, 3,150 steps of 8. Takes hours."
            ),
        ),
    ] = False

    def given(self) -> list[str]:
        """But for the task itself."""
        names = ("evaluate", "paths_per_sum", *self.of_memorise())
        return [name for name in names if name in self.of_memorise() or getattr(self, name)]

    def of_memorise(self) -> list[str]:
        """Options that were given and that no other task has."""
        numbers = [
            name
            for name in ("sequences", "length", "tokens_from")
            if getattr(self, name) is not None
        ]
        return [*numbers, *["as_published"] * self.as_published]


def refuse_without_a_task(asked: PathTaskOptions, training: TrainingOptions) -> None:
    names = [*asked.given(), *training.given()]
    if names:
        known = ", ".join(name.replace("_", "-") for name in TASKS.names())
        raise UsageError(
            f"{said_of(names, 'goes', 'go')} with `task`: name one of {known}.", idle=names
        )


def without_sizes(network: NetworkOptions) -> list[str]:
    """Options that were given and that these networks do not have."""
    return [name for name in network.given() if name not in SIZES]


def task_study(
    asked: PathTaskOptions,
    training: TrainingOptions,
    network: NetworkOptions,
    run: RunOptions,
    conditions: "Sequence[Condition]",
) -> "Callable[..., Report]":
    """Everything that can be refused is, before torch is imported."""
    from attncli.commands.reproduce.labelling.report import OWN_METRICS

    for condition in conditions:
        if condition.metric not in OWN_METRICS:
            raise unknown_name("metric in the gate", condition.metric, OWN_METRICS)
    name = (asked.task or "").replace("_", "-")
    task = memorised(asked) if name == MEMORISE else TASKS[name]()
    if name != MEMORISE and asked.of_memorise():
        raise UsageError(
            f"{said_of(asked.of_memorise(), 'is', 'are')} of `task='memorise'` alone: {name} has sequences of its own.",
            idle=asked.of_memorise(),
        )
    watched = watching(training, name)
    known: dict[str, Any] = {
        "sizes": sizes_of(network, task.sizes),
        "steps": within("train_steps", training.train_steps, task.steps, 1, MOST_STEPS),
        "evaluations": wanted_evaluations(asked.evaluate),
        "numbers": wanted_numbers(asked.paths_per_sum),
        "seeds": run.all_seeds(),
        "saved_as": trainings_in(training.save_training, name),
    }
    known |= {} if watched is None else {"watched": watched}
    from attncli.commands.reproduce.labelling.experiment import Questions, task_paths

    return partial(task_paths, Questions(name, definition(asked, task), task, **known))


def definition(asked: PathTaskOptions, task: "Task") -> str:
    """What is learned, as the task's file says it or as it was asked for."""
    if not asked.of_memorise():
        return TASKS.summary((asked.task or "").replace("_", "-"))
    words = "words of their own" if asked.tokens_from is None else "the tokens of a file in order"
    text = f"{words}, {task.vocabulary:,} different ones"
    return f"{task.asked:,} sequences of {task.length:,} tokens ({text}), with a random label of 0 or 1 for each token."


def memorised(asked: PathTaskOptions) -> "Task":
    """The task with its own sequences, those that were asked for, or the released script's."""
    from attncli.commands.reproduce.tasks.memorise import (
        LENGTH,
        SEQUENCES,
        ReleasedScript,
        memorise,
    )

    released = ReleasedScript()
    own = (released.sequences, released.length) if asked.as_published else (SEQUENCES, LENGTH)
    sequences = within("sequences", asked.sequences, own[0], 1, MOST_SEQUENCES)
    length = within("length", asked.length, own[1], 2, MOST_LENGTH)
    if asked.tokens_from is None:
        if asked.as_published:
            raise UsageError(
                "`as_published` learns a text by heart: name a file of words or token ids with `tokens_from`.",
                idle=["as_published"],
            )
        return memorise(sequences, length)
    from attncli.commands.reproduce.token_streams import token_stream

    stream = token_stream(asked.tokens_from, sequences * length)
    return memorise(sequences, length, stream, asked.as_published)


def wanted_evaluations(given: Sequence[str]) -> list[str]:
    from attncli.commands.reproduce.labelling.report import EVALUATIONS

    names = list(dict.fromkeys(separated(given or EVALUATIONS)))
    for name in names:
        if name not in EVALUATIONS:
            raise unknown_name("evaluation", name, EVALUATIONS)
    return names


def wanted_numbers(given: Sequence[str]) -> list[int]:
    """How many paths are added, fewest first."""
    return whole_numbers(
        given or ["5", "20"],
        MOST_PATHS,
        lambda text: (
            f"`paths_per_sum={text!r}` must be a whole number from 1 to {MOST_PATHS:,}, or several with commas between."
        ),
    )


def sizes_of(network: NetworkOptions, own: "Sizes") -> "Sizes":
    """The task's own sizes but for those that are given, refused as those of any network are."""
    from attncli.commands.reproduce.tasks import Sizes

    given = network.given()
    sizes = {name: given.get(name, getattr(own, name)) for name in SIZES}
    spec = NetworkSpec(**sizes)
    return Sizes(spec.layers, spec.heads, spec.width)
