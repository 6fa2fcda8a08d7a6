"""From the options of `attn reproduce circle` to its report."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attncli.analysis import Study
from attncli.commands.reproduce.circle.options import CircleOptions
from attncli.commands.reproduce.options import (
    TrainingOptions,
    open_training_folder,
    validate_number_or_default,
)
from attncli.commands.reproduce.training_monitor_callback import build_training_callback
from attncli.errors import require_known_names
from attncli.options.run_and_output import RunOptions, split_comma_separated_names

if TYPE_CHECKING:
    from attncli.commands.reproduce.circle.network_design import NetworkDesign
    from attncli.gates import Condition

DEFAULT_METRIC = "log10_residual"
SWEPT: Mapping[str, type[int]] = {"width": int}
MOST_TRAINING, MOST_STEPS = 10_000_000, 100_000


def collect_requested_and_gated_metrics(
    requested_names: Sequence[str] | None, conditions: "Sequence[Condition]"
) -> list[str]:
    """The requested columns and those that gates need; unknown names are refused before the work."""
    from attncli.commands.reproduce.circle.report import OWN_METRICS
    from attncli.metrics import METRICS

    names, known = split_comma_separated_names(requested_names or [DEFAULT_METRIC]), METRICS.names()
    require_known_names("metric", names, known)
    gated = [condition.metric for condition in conditions]
    require_known_names("metric in the gate", gated, [*known, *OWN_METRICS])
    return list(dict.fromkeys([*names, *(name for name in gated if name not in OWN_METRICS)]))


def prepare_circle_training(
    options: CircleOptions,
    training: TrainingOptions,
    variants: Sequence[str],
    metrics: Sequence[str],
    run: RunOptions,
) -> Study:
    """Validate everything that can be validated before torch is imported."""
    from attncli.commands.reproduce.circle.experiment_settings import (
        STEPS,
        TRAINING_STEPS,
        Experiment,
    )

    experiment = Experiment(
        seeds=run.list_seeds(),
        training_steps=validate_number_or_default(
            "train_steps", training.train_steps, TRAINING_STEPS, 0, MOST_TRAINING
        ),
        steps=validate_number_or_default("recurrence", options.recurrence, STEPS, 1, MOST_STEPS),
    )
    designs = build_network_architectures(
        variants, parse_network_widths(options.width, options.sweep), options.as_published
    )
    prefix = "circle-published" if options.as_published else "circle"
    watched = build_training_callback(training, prefix)
    saved_as = open_training_folder(training.save_training, prefix)  # last: it makes the folder
    from attncli.commands.reproduce.circle.train_and_measure import (
        train_and_measure_circle_networks,
    )
    from attncli.commands.reproduce.training_loop import do_not_observe_training

    return partial(
        train_and_measure_circle_networks,
        designs,
        experiment,
        metrics=metrics,
        published=options.as_published,
        saved_as=saved_as,
        watched=watched or do_not_observe_training,
    )


def parse_network_widths(width: int | None, sweep: str | None) -> list[int]:
    from attncli.commands.reproduce.circle.experiment_settings import WIDTHS
    from attncli.options.sweep_ranges import parse_size_sweep

    if sweep is None:
        return list(WIDTHS) if width is None else [width]
    _, points = parse_size_sweep(sweep, SWEPT)
    return [int(point) for point in points]


def build_network_architectures(
    variants: Sequence[str], widths: Sequence[int], published: bool
) -> "dict[tuple[int, str], NetworkDesign]":
    from attncli.commands.reproduce.circle.network_design import (
        make_architecture_of_variant,
        make_published_architecture,
    )

    make = make_published_architecture if published else make_architecture_of_variant
    return {(width, variant): make(width, variant) for width in widths for variant in variants}
