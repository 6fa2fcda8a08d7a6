"""`attn paths`"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attncli.api.task_path_studies import (
    PathTaskOptions,
    refuse_without_a_task,
    task_study,
    without_sizes,
)
from attncli.cli.config.defaults import before_the_work
from attncli.cli.terminal import grouped
from attncli.options.model_options import (
    InputOptions,
    ModelOptions,
    Source,
    refuse_for_a_model,
    refuse_without_a_model,
)
from attncli.options.path_options import PathOptions
from attncli.options.shared import NetworkOptions, OutputOptions, RunOptions
from attncli.options.task_options import TrainingOptions, refuse_beside_a_task

if TYPE_CHECKING:
    from attncli.gates import Condition
    from attncli.models.sources import Source as Named
    from attncli.records import Report

EXAMPLES = """
attn paths                                          12 layers of attention with skips, 5 seeds
attn paths --layers 3 --heads 2 --norm layer --metric log10_residual
attn paths --count --layers 96 --heads 96           count alone, from sizes: nothing is run
attn paths --path 1,0,0,3,0,0,0,0,0,0,0,2           one path: head 1, then two skips, head 3 …
attn paths --sample 50 --plot                       longer paths are closer to rank 1
attn paths gpt2 --by head                           share of the output through each head
attn paths gpt2 --by steps                          … by how many attentions and how many MLPs
attn paths ./checkpoint --text-file essays.txt --steps attention,mlp
attn paths gpt2 --loss                              what short paths alone predict
attn paths random:bert --random-tokens 128 --sample 100
attn paths random:bert --random-tokens 128 -o paths.json
attn paths net.safetensors --fail-if 'completeness_error > 1e-12'
attn paths --task sort                              what a few paths do alone in networks trained to sort
attn paths --task convex-hull --evaluate frozen --save-training runs
"""


@grouped
def paths(
    *,
    source: Source = None,
    asked: PathOptions,
    task: PathTaskOptions,
    training: TrainingOptions,
    model: ModelOptions,
    inputs: InputOptions,
    network: NetworkOptions,
    run: RunOptions,
    output: OutputOptions,
) -> int:
    """How much of the output travels through paths of each length, and what can short paths do alone?

    A self-attention network's output is a sum over paths that pick one head, or the skip, in each layer. With the
    attention of the full pass frozen (in a trained model norm denominators, activation ratios and gates too), all paths
    of one length are summed together, so the cost is one forward pass for each length, never one for each path. A
    path's length is the number of heads that it goes through; a bias, and in a decoder what the encoder brings, begins
    a path of length 0 where it stands. MLPs of a model are passed without being counted, or counted apart by --steps
    mlp. That the terms add up to the output is checked every time.

    With --task small networks of attention are trained here first, and what sums of a few random paths of one length do
    alone is measured: of paths with the attention of the full pass, and of sub-networks run on their own.
    """
    from attncli.api.provenance import with_provenance
    from attncli.api.progress import progress_bar
    from attncli.cli.writer import emit, prepare

    conditions = prepare(output)
    asked.refuse_contradictions(task.task)
    of_models = [*asked.for_models(), *model.given(), *inputs.given()]
    from attncli.api import network_sources as sources

    subject = sources.named(source, "attn paths", output.output)
    if task.task is not None:
        others = [*["metric"] * bool(asked.metric), *["no_skip"] * (not asked.skip), *of_models]
        refuse_beside_a_task(source, [*others, *without_sizes(network)])
        study = task_study(task, training, network, run, conditions)
    else:
        refuse_without_a_task(task, training)
        if not subject.is_model:
            refuse_without_a_model(subject, of_models)
        elif not asked.count:
            refuse_for_a_model(subject, network, run, *["--no-skip"] * (not asked.skip))
        if asked.count:
            from attncli.api.path_count_studies import count_study

            study = count_study(subject, asked, network, run, of_models, model.offline)
        elif subject.is_model:
            study = model_study(subject, asked, model, inputs, network, run, conditions)
        else:
            study = network_study(subject, asked, network, run, conditions)
    before_the_work()
    with progress_bar(output.shows_progress) as progress:
        report: Report = study(progress=progress)
    return emit(with_provenance(report), output, conditions)


def network_study(
    source: "Named",
    asked: PathOptions,
    network: NetworkOptions,
    run: RunOptions,
    conditions: "Sequence[Condition]",
) -> "Callable[..., Report]":
    """Of synthetic networks, made here or in a file."""
    from attncli.api import network_path_studies as path_runs

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
) -> "Callable[..., Report]":
    """Of a trained model; what is wrong with the words is said before torch is imported."""
    from attncli.api.network_path_studies import DEFAULT_METRICS, wanted_metrics
    from attncli.api.opened_models import refuse_at_once
    from attncli.gates import refuse_unmeasured

    refuse_at_once(source)
    where = (model, inputs, network.tokens, run.seed or 0)
    if asked.of_single_paths:
        from attncli.api import model_path_studies as path_models

        refuse_unmeasured(conditions, path_models.measured(asked))
        single = path_models.single_study if asked.by is None else path_models.study_by
        return single(source, asked, *where)
    metrics = wanted_metrics(asked.metric or DEFAULT_METRICS, conditions, of_model=True)
    from attncli.api import model_path_studies as path_models

    return path_models.model_study(source, asked, metrics, *where)
