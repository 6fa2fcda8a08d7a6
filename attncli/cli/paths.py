"""`attn paths`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.cli.groups import grouped
from attncli.cli.model_options import (
    InputOptions,
    ModelOptions,
    Source,
    refuse_for_a_model,
    refuse_without_a_model,
)
from attncli.cli.options import NetworkOptions, Option, OutputOptions, RunOptions, complete_metric
from attncli.cli.task_options import TrainingOptions, refuse_beside_a_task
from attncli.cli.task_paths import (
    PathTaskOptions,
    refuse_without_a_task,
    task_study,
    without_sizes,
)

if TYPE_CHECKING:
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
    metric: Annotated[
        list[str] | None,
        Option(
            metavar="NAME,…",
            autocompletion=complete_metric,
            help="Of each length's term, from `attn list metrics`. [default: log10_residual,stable_rank]",
        ),
    ] = None,
    skip: Annotated[
        bool, Option("--skip/--no-skip", help="Without skips all paths have the full length.")
    ] = True,
    count: Annotated[
        bool,
        Option("--count", help="Count paths only: of SOURCE's config, or --layers and --heads."),
    ] = False,
    path: Annotated[
        list[str] | None,
        Option(
            metavar="N,N,…",
            help="One path: for each layer a head from 1 on, or 0 = its skip. Repeatable.",
        ),
    ] = None,
    sample: Annotated[
        int | None, Option(metavar="N", help="N random paths of every length, and their quantiles.")
    ] = None,
    by: Annotated[
        str | None,
        Option(
            metavar="head|steps",
            help="Share of the output through each head and each skip; or, of a model, by how many attentions and "
            "how many MLPs.",
        ),
    ] = None,
    steps: Annotated[
        list[str] | None,
        Option(
            metavar="attention,mlp",
            help="What counts as a step of a model's paths. [default: attention]",
        ),
    ] = None,
    loss: Annotated[
        bool,
        Option("--loss", help="Of a next-token model when only paths up to a length are kept."),
    ] = False,
    asked: PathTaskOptions,
    training: TrainingOptions,
    stack: Annotated[
        str | None,
        Option(
            metavar="NAME", help="Of a model with several, such as decoder. [default: the first]"
        ),
    ] = None,
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
    from attncli.cli.models import refuse_at_once
    from attncli.cli.path_runs import (
        DEFAULT_METRICS,
        count_study,
        length_study,
        refuse_together,
        refuse_with_single,
        single_study,
        wanted_metrics,
    )
    from attncli.cli.progress import progress_bar
    from attncli.cli.provenance import with_provenance
    from attncli.cli.writer import emit, prepare

    conditions = prepare(output)
    refuse_together(task=asked.task, count=count, path=path, sample=sample is not None, by=by)
    if asked.task is None:
        refuse_without_a_task(asked, training)
    named = None if source is None or Path(source).is_file() else source
    of_model = [*["steps"] * bool(steps), *["loss"] * loss, *["stack"] * bool(stack)]
    of_model += [*model.given(), *inputs.given()]
    if named is None and asked.task is None:
        refuse_without_a_model(of_model)
    single = bool(path) or sample is not None or by is not None
    if single:
        refuse_with_single(sample, by, metric, steps, loss)
    if asked.task is not None:
        others = [*["metric"] * bool(metric), *["no_skip"] * (not skip), *of_model]
        refuse_beside_a_task(source, [*others, *without_sizes(network)])
        study = task_study(asked, training, network, run, conditions)
    elif count:
        study = count_study(source, metric, skip, network, run, of_model, model.offline)
    elif named is not None:
        refuse_for_a_model(named, network, run, *["--no-skip"] * (not skip))
        refuse_at_once(named)
        from attncli.cli import path_models

        where = (model, inputs, network.tokens, run.seed, stack)
        if by is not None:
            study = path_models.study_by(by, named, *where)
        elif single:
            study = path_models.single_study(named, path, sample, *where)
        else:
            metrics = wanted_metrics(metric or DEFAULT_METRICS, conditions, of_model=True)
            study = path_models.model_study(named, metrics, steps, loss, *where)
    elif single:
        study = single_study(source, skip, path, sample, by, network, run)
    else:
        study = length_study(source, metric, skip, network, run, conditions)
    with progress_bar(output.shows_progress) as progress:
        report: Report = study(progress=progress)
    return emit(with_provenance(report), output, conditions)
