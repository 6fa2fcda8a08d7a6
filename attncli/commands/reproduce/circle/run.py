"""From the options of `attn reproduce circle` to its report."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attncli.commands.reproduce.circle.options import CircleOptions
from attncli.commands.reproduce.options import TrainingOptions, trainings_in, within
from attncli.commands.reproduce.task_callback import watching
from attncli.errors import UsageError, unknown_name
from attncli.options.shared import RunOptions, separated

if TYPE_CHECKING:
    from attncli.commands.reproduce.circle.design import Design
    from attncli.gates import Condition
    from attncli.records import Report

DEFAULT_METRIC = "log10_residual"
SWEPT: Mapping[str, type[int]] = {"width": int}
MOST_TRAINING, MOST_STEPS = 10_000_000, 100_000


def requested_metrics(given: Sequence[str] | None, conditions: "Sequence[Condition]") -> list[str]:
    """The columns asked for, and whatever the gates need; unknown names are refused before the work."""
    from attncli.commands.reproduce.circle.report import OWN_METRICS
    from attncli.metrics import METRICS

    names, known = separated(given or [DEFAULT_METRIC]), METRICS.names()
    for name in names:
        if name not in known:
            raise unknown_name("metric", name, known)
    gated = [condition.metric for condition in conditions]
    for name in gated:
        if name not in (*known, *OWN_METRICS):
            raise unknown_name("metric in the gate", name, [*known, *OWN_METRICS])
    return list(dict.fromkeys([*names, *(name for name in gated if name not in OWN_METRICS)]))


def circle_study(
    asked: CircleOptions,
    training: TrainingOptions,
    variants: Sequence[str],
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
    designs = designs_of(variants, widths_of(asked.width, asked.sweep), asked.as_published)
    prefix = "circle-published" if asked.as_published else "circle"
    watched = watching(training, prefix)
    saved_as = trainings_in(training.save_training, prefix)  # last: it makes the folder
    from attncli.commands.reproduce.circle.learned_circle import circle

    known: dict[str, Any] = {} if watched is None else {"watched": watched}
    return partial(
        circle, designs, experiment, published=asked.as_published, saved_as=saved_as, **known
    )


def widths_of(width: int | None, sweep: str | None) -> list[int]:
    from attncli.commands.reproduce.circle.experiment import WIDTHS
    from attncli.options.size_ranges import parse_sweep

    if sweep is None:
        return list(WIDTHS) if width is None else [width]
    if width is not None:
        raise UsageError("`width` is what `sweep` varies: leave it out.", about=["width", "sweep"])
    _, points = parse_sweep(sweep, SWEPT)
    return [int(point) for point in points]


def designs_of(
    variants: Sequence[str], widths: Sequence[int], published: bool
) -> "dict[tuple[int, str], Design]":
    from attncli.commands.reproduce.circle.design import as_named, as_published

    make = as_published if published else as_named
    return {(width, variant): make(width, variant) for width in widths for variant in variants}
