"""From the options of `attn rank-collapse --task circle` to a study."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from attncli.commands.reproduce.options import (
    TrainingOptions,
    refuse_beside_a_task,
    task_option,
    trainings_in,
    within,
)
from attncli.commands.reproduce.task_callback import watching
from attncli.errors import UsageError, said_of, unknown_name
from attncli.options.completion import completion
from attncli.options.shared import NetworkOptions, RunOptions

if TYPE_CHECKING:
    from attncli.commands.reproduce.circle.design import Design
    from attncli.records import Report

TASKS = ("circle",)
SWEPT: Mapping[str, type[int]] = {"width": int}
MOST_TRAINING, MOST_STEPS = 10_000_000, 100_000


@dataclass(frozen=True)
class CollapseTaskOptions:
    """A layer that is trained here, and applied again and again to its own output."""

    task: Annotated[
        str | None,
        task_option(
            metavar="circle",
            complete=completion(lambda: list(TASKS)),
            help=(
                "Train one layer to move two points along a circle, then apply it to its own output: do the points "
                "become one? Widths 32, 64 and 128, or --width, or --sweep width=…."
            ),
        ),
    ] = None
    recurrence: Annotated[
        int | None,
        task_option(metavar="STEPS", help="How many times the layer is applied. [default: 300]"),
    ] = None
    as_published: Annotated[
        bool,
        task_option(
            "--as-published",
            help=(
                "Follow the released script: the layer's skip always stays, 'skip' adds up all predictions, and "
                "dropout is on."
            ),
        ),
    ] = False

    def given(self) -> list[str]:
        """But for the task itself."""
        return [
            *["recurrence"] * (self.recurrence is not None),
            *["as_published"] * self.as_published,
        ]


def refuse_without_a_task(asked: CollapseTaskOptions, training: TrainingOptions) -> None:
    names = [*asked.given(), *training.given()]
    if asked.task is None and names:
        raise UsageError(
            f"{said_of(names, 'goes', 'go')} with `task='circle'`: name the task.", idle=names
        )


def refuse_with_the_task(
    task: str, source: str | None, network: NetworkOptions, others: Sequence[str]
) -> None:
    """What the networks of the task do not have; `others` are further such options that were given."""
    if task not in TASKS:
        raise unknown_name("task", task, TASKS)
    names = [name for name in network.given() if name != "width"]
    refuse_beside_a_task(source, [*names, *others])


def circle_study(
    asked: CollapseTaskOptions,
    training: TrainingOptions,
    variants: Sequence[str],
    width: int | None,
    sweep: str | None,
    run: RunOptions,
) -> "Callable[..., Report]":
    """Everything that can be refused is, before torch is imported."""
    from attncli.commands.reproduce.circle.experiment import STEPS, TRAINING_STEPS, Experiment

    experiment = Experiment(
        seeds=run.all_seeds(),
        training_steps=within(
            "train_steps", training.train_steps, TRAINING_STEPS, 0, MOST_TRAINING
        ),
        steps=within("recurrence", asked.recurrence, STEPS, 1, MOST_STEPS),
    )
    designs = designs_of(variants, wanted_widths(width, sweep), asked.as_published)
    prefix = "circle-published" if asked.as_published else "circle"
    watched = watching(training, prefix)
    saved_as = trainings_in(training.save_training, prefix)  # last: it makes the folder
    from attncli.commands.reproduce.circle.learned_circle import circle

    known: dict[str, Any] = {} if watched is None else {"watched": watched}
    return partial(
        circle, designs, experiment, published=asked.as_published, saved_as=saved_as, **known
    )


def wanted_widths(width: int | None, sweep: str | None) -> list[int]:
    from attncli.commands.reproduce.circle.experiment import WIDTHS
    from attncli.options.size_ranges import parse_sweep

    if sweep is None:
        return list(WIDTHS) if width is None else [width]
    if width is not None:
        raise UsageError(
            "`width` is what `sweep` varies: leave it out.", idle=["width"], because=["sweep"]
        )
    try:
        _, points = parse_sweep(sweep, SWEPT)
    except UsageError as error:
        raise UsageError(str(error), **of_networks(sweep)) from None
    return [int(point) for point in points]


def of_networks(sweep: str) -> dict[str, list[str]]:
    """Whether a sweep that the task does not have would make sense where nothing is trained."""
    from attncli.analysis.states.size_sweep import SWEPT as OF_NETWORKS

    known = sweep.partition("=")[0] in set(OF_NETWORKS) - set(SWEPT)
    return {"idle": ["sweep"], "because": ["task"]} if known else {}


def designs_of(
    variants: Sequence[str], widths: Sequence[int], published: bool
) -> "dict[tuple[int, str], Design]":
    from attncli.commands.reproduce.circle.design import as_named, as_published

    make = as_published if published else as_named
    return {(width, variant): make(width, variant) for width in widths for variant in variants}
