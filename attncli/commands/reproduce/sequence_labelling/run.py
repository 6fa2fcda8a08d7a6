"""From the options of `attn reproduce memorise`, `sort` and `convex-hull` to their report."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from attncli.analysis import Study
from attncli.commands.reproduce.options import (
    TrainingOptions,
    open_training_folder,
    parse_whole_numbers,
    validate_number_or_default,
)
from attncli.commands.reproduce.sequence_labelling.options import LabellingOptions, MemoriseOptions
from attncli.commands.reproduce.training_monitor_callback import build_training_callback
from attncli.errors import UsageError, require_known_names
from attncli.networks.network_spec import NetworkSpec
from attncli.options.run_and_output import RunOptions, split_comma_separated_names
from attncli.python.questions import RunContext

if TYPE_CHECKING:
    from attncli.commands.reproduce.tasks import Sizes, Task
    from attncli.gates import Condition
    from attncli.records import Report

SIZES = ("layers", "heads", "width")

MOST_PATHS, MOST_STEPS = 1000, 1_000_000
MOST_SEQUENCES, MOST_LENGTH = 100_000, 4096


def train_on_task_and_build_report(
    name: str,
    options: LabellingOptions,
    training: TrainingOptions,
    run: RunOptions,
    how: RunContext,
    memory: MemoriseOptions | None = None,
) -> "Report":
    """Train the networks of a task and measure sums of their paths."""
    study = prepare_labelling_task(name, options, training, run, how.conditions, memory)
    from attncli.models.loading.isolate_global_state import isolate_run_in_process

    isolate_run_in_process()
    return how.run_measurement(study)


def prepare_labelling_task(
    name: str,
    options: LabellingOptions,
    training: TrainingOptions,
    run: RunOptions,
    conditions: "Sequence[Condition]",
    memory: MemoriseOptions | None = None,
) -> Study:
    """Validate everything that can be validated before torch is imported."""
    from attncli.commands.reproduce.sequence_labelling.report import OWN_METRICS
    from attncli.commands.reproduce.tasks import TASKS
    from attncli.gates import refuse_gates_on_unmeasured_metrics

    refuse_gates_on_unmeasured_metrics(conditions, OWN_METRICS)
    task = TASKS[name]() if memory is None else build_memorise_task(memory)
    watched = build_training_callback(training, name)
    sizes = resolve_network_sizes(options, task.sizes)
    steps = validate_number_or_default(
        "train_steps", training.train_steps, task.steps, 1, MOST_STEPS
    )
    evaluations = parse_evaluation_names(options.evaluate)
    sums = parse_paths_per_sum(options.paths_per_sum)
    saved_as = open_training_folder(training.save_training, name)
    from attncli.commands.reproduce.sequence_labelling.experiment import (
        LabellingRequest,
        measure_path_accuracies,
    )
    from attncli.commands.reproduce.training_loop import do_not_observe_training

    request = LabellingRequest(
        name,
        describe_labelling_task(name, memory, task),
        task,
        sizes,
        steps=steps,
        evaluations=evaluations,
        numbers=sums,
        seeds=run.list_seeds(),
        saved_as=saved_as,
        training_observer=watched or do_not_observe_training,
    )
    return partial(measure_path_accuracies, request)


def describe_labelling_task(name: str, memory: MemoriseOptions | None, task: "Task") -> str:
    """Describe what is learned, from the task's file or from the options."""
    from attncli.commands.reproduce.tasks import TASKS

    if memory is None or not memory.differs_from_default_task:
        return TASKS.summary(name)
    words = "words of their own" if memory.tokens_from is None else "the tokens of a file in order"
    text = f"{words}, {task.vocabulary:,} different ones"
    return f"{task.test_count:,} sequences of {task.length:,} tokens ({text}), with a random label of 0 or 1 for each token."


def build_memorise_task(options: MemoriseOptions) -> "Task":
    """The task with its own sequences, the requested ones, or the released script's."""
    from attncli.commands.reproduce.tasks.memorise import (
        LENGTH,
        SEQUENCES,
        ReleasedScriptSettings,
        memorise,
    )

    released = ReleasedScriptSettings()
    own = (released.sequences, released.length) if options.as_published else (SEQUENCES, LENGTH)
    sequences = validate_number_or_default(
        "sequences", options.sequences, own[0], 1, MOST_SEQUENCES
    )
    length = validate_number_or_default("length", options.length, own[1], 2, MOST_LENGTH)
    if options.tokens_from is None:
        return memorise(sequences, length)
    from attncli.commands.reproduce.token_sequence_files import read_and_renumber_tokens

    stream = read_and_renumber_tokens(options.tokens_from, sequences * length)
    return memorise(sequences, length, stream, options.as_published)


def parse_evaluation_names(texts: Sequence[str]) -> list[str]:
    from attncli.commands.reproduce.sequence_labelling.report import EVALUATIONS

    names = list(dict.fromkeys(split_comma_separated_names(texts or EVALUATIONS)))
    require_known_names("evaluation", names, EVALUATIONS)
    return names


def parse_paths_per_sum(texts: Sequence[str]) -> list[int]:
    """How many paths are added, fewest first."""
    return parse_whole_numbers(
        texts or ["5", "20"],
        MOST_PATHS,
        lambda text: (
            f"`paths_per_sum={text!r}` must be a whole number from 1 to {MOST_PATHS:,}, or several with commas between."
        ),
    )


def resolve_network_sizes(options: LabellingOptions, own: "Sizes") -> "Sizes":
    """The task's own sizes with the user's in their place, validated like those of any network."""
    from attncli.commands.reproduce.tasks import Sizes

    sizes = options.list_sizes_set_by_user()
    layers, heads, width = (sizes.get(name, getattr(own, name)) for name in SIZES)
    if heads > 0 and width % heads:
        raise UsageError(
            f"`heads={heads!r}` does not divide `width={width!r}`: choose heads that do."
        )
    spec = NetworkSpec(layers=layers, heads=heads, width=width)
    return Sizes(spec.layers, spec.heads, spec.width)
