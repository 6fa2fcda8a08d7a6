"""The question of `attn paths`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attncli.commands.paths.options import PathOptions
from attncli.commands.reproduce.labelling.run import (
    PathTaskOptions,
    refuse_without_a_task,
    task_study,
    without_sizes,
)
from attncli.commands.reproduce.options import TrainingOptions, refuse_beside_a_task
from attncli.declare.dry_run import before_the_work
from attncli.options.model import (
    InputOptions,
    ModelOptions,
    Source,
    refuse_for_a_model,
    refuse_without_a_model,
)
from attncli.options.shared import NetworkOptions, RunOptions
from attncli.python.question import MEASURING, How, question
from attncli.records import Report

if TYPE_CHECKING:
    from attncli.gates import Condition
    from attncli.sources import Source as Named


@question(own=("tokenizer", "inputs"))
def paths(
    *,
    source: Source = None,
    asked: PathOptions,
    model: ModelOptions,
    inputs: InputOptions,
    network: NetworkOptions,
    task: PathTaskOptions,
    training: TrainingOptions,
    run: RunOptions,
    how: How,
) -> Report:
    """How much of the output travels through paths of each length, and what can short paths do alone?

    A self-attention network's output is a sum over paths that pick one head, or the skip, in each layer. With the
    attention of the full pass frozen (in a trained model also norm denominators, activation ratios and gates), all paths
    of one length are summed together, so each length costs one forward pass. A path's length is the number of heads it
    goes through; a bias, or the encoder's output in a decoder, starts a path of length 0 where it enters. A model's MLPs
    are not counted, or counted separately with --steps mlp. Every run checks that the terms add up to the output.

    With --task, attn first trains small attention networks, then measures what sums of a few random paths of one length
    do alone: with the attention of the full pass, and as sub-networks run on their own.
    """

    conditions = how.conditions
    asked.refuse_contradictions(task.task)
    of_models = [*asked.for_models(), *model.given(), *inputs.given()]
    from attncli.analysis import network_sources as sources

    subject = sources.named(source, "paths", how.output)
    if task.task is not None:
        others = [*["metric"] * bool(asked.metric), *["skip=False"] * (not asked.skip), *of_models]
        refuse_beside_a_task(source, [*others, *without_sizes(network)])
        study = task_study(task, training, network, run, conditions)
    else:
        refuse_without_a_task(task, training)
        if not subject.is_model:
            refuse_without_a_model(subject, of_models)
        elif not asked.count:
            refuse_for_a_model(subject, network, run, *["skip=False"] * (not asked.skip))
        if asked.count:
            from attncli.commands.count_paths.run import count_study

            study = count_study(subject, asked, network, run, of_models, model)
        elif subject.is_model:
            study = model_study(subject, asked, model, inputs, network, run, conditions, how.say)
        else:
            study = network_study(subject, asked, network, run, conditions)
    before_the_work()
    if task.task is not None:
        from attncli.models.loading.isolate_global_state import alone

        alone()
    how.doing(MEASURING)
    report: Report = study(progress=how.progress)
    return report


def network_study(
    source: "Named",
    asked: PathOptions,
    network: NetworkOptions,
    run: RunOptions,
    conditions: "Sequence[Condition]",
) -> Callable[..., Report]:
    """Of synthetic networks, made here or in a file."""
    from attncli.commands.paths import run_network as path_runs

    if asked.of_single_paths:
        return path_runs.single_study(source, asked, network, run)
    return path_runs.length_study(source, asked, network, run, conditions)


def model_study(
    source: "Named",
    asked: PathOptions,
    model: ModelOptions,
    inputs: InputOptions,
    network: NetworkOptions,
    run: RunOptions,
    conditions: "Sequence[Condition]",
    say: Callable[[str], None],
) -> Callable[..., Report]:
    """Of a trained model; what is wrong with the words is said before torch is imported."""
    from attncli.analysis.prepare import refuse_at_once
    from attncli.commands.paths.run_network import DEFAULT_METRICS, wanted_metrics
    from attncli.gates import refuse_unmeasured

    where = (model, inputs, network.tokens, run.seed or 0)
    refuse_at_once(source, *where)
    model.refuse_half()
    asked.kinds_of_step()
    if asked.sensitivity:
        from attncli.commands.sensitivity.report import METRICS
        from attncli.commands.sensitivity.run import sensitivity_study

        refuse_unmeasured(conditions, METRICS)
        return sensitivity_study(source, asked, *where, say)
    if asked.of_single_paths:
        from attncli.commands.paths import run_model as path_models

        refuse_unmeasured(conditions, path_models.measured(asked))
        single = path_models.single_study if asked.by is None else path_models.study_by
        return single(source, asked, *where)
    metrics = wanted_metrics(asked.metric or DEFAULT_METRICS, conditions, of_model=True)
    from attncli.commands.paths import run_model as path_models

    return path_models.model_study(source, asked, metrics, *where)
