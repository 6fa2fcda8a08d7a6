"""The question of `attn paths`."""

from collections.abc import Sequence

from attncli.analysis import Study
from attncli.commands.paths.options import PathOptions
from attncli.gates import Condition
from attncli.model_and_file_sources import Source as Named
from attncli.options.model_and_input import SOURCE_ARGUMENT, InputOptions, WholeModelOptions
from attncli.options.run_and_output import RunOptions
from attncli.options.synthetic_network import NetworkOptions
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn paths                                          # 12 layers of attention with skips, 5 seeds
attn paths ./checkpoint --text-file essays.txt --steps attention,mlp
attn paths gpt2 --by head                           # share of the output through each head
attn paths gpt2 --loss                              # what short paths alone predict
attn paths gpt2 --by steps                          # shares by how many attentions and how many MLPs
attn paths --layers 3 --heads 2 --norm layer --metric log10_residual
attn paths --path 1,0,0,3,0,0,0,0,0,0,0,2           # one path: head 1, then two skips, head 3 …
attn paths --sample 50 --plot                       # longer paths are closer to rank 1
attn paths random:bert --random-tokens 128 --sample 100
attn paths random:bert --random-tokens 128 -o paths.json
attn paths net.safetensors --fail-if 'completeness_error > 1e-12'
"""


@question(own=("tokenizer", "inputs"))
def paths(
    *,
    source: str | None = SOURCE_ARGUMENT,
    options: PathOptions,
    model: WholeModelOptions,
    inputs: InputOptions,
    network: NetworkOptions,
    run: RunOptions,
    how: RunContext,
) -> Report:
    """How much of the output travels through paths of each length?

    A self-attention network's output is a sum over paths that pick one head, or the skip, in each layer. With the
    attention of the full pass frozen (in a trained model also norm denominators, activation ratios and gates), all paths
    of one length are summed together, so each length costs one forward pass. A path's length is the number of heads it
    goes through; a bias, or the encoder's output in a decoder, starts a path of length 0 where it enters. A model's MLPs
    are not counted, or counted separately with --steps mlp. Every run checks that the terms add up to the output.

    """

    conditions = how.conditions
    options.refuse_invalid_path_options()
    from attncli.analysis.source_argument_checks import resolve_source_argument

    subject = resolve_source_argument(source, "paths", how.output)
    if subject.is_model:
        study = prepare_model_paths(subject, options, model, inputs, network, run, conditions)
    else:
        study = prepare_network_paths(subject, options, network, run, conditions)
    return how.run_measurement(study)


def prepare_network_paths(
    source: Named,
    options: PathOptions,
    network: NetworkOptions,
    run: RunOptions,
    conditions: Sequence[Condition],
) -> Study:
    """Prepare a study of synthetic networks, generated or from a file."""
    from attncli.commands.paths import run_synthetic_network as path_runs

    if options.selects_single_paths:
        return path_runs.prepare_network_single_paths(source, options, network, run)
    return path_runs.prepare_network_output_by_path_length(
        source, options, network, run, conditions
    )


def prepare_model_paths(
    source: Named,
    options: PathOptions,
    model: WholeModelOptions,
    inputs: InputOptions,
    network: NetworkOptions,
    run: RunOptions,
    conditions: Sequence[Condition],
) -> Study:
    """Prepare a study of a trained model; options are validated before torch is imported."""
    from attncli.commands.paths.run_synthetic_network import (
        DEFAULT_METRICS,
        collect_requested_and_gated_metrics,
    )
    from attncli.gates import refuse_gates_on_unmeasured_metrics
    from attncli.options.model_and_input import check_options_before_model_loading

    where = (model, inputs, network.tokens, run.seed or 0)
    check_options_before_model_loading(source, *where)
    model.refuse_half_precision()
    options.parse_path_step_kinds()
    if options.selects_single_paths:
        from attncli.commands.paths import run_trained_model as path_models

        refuse_gates_on_unmeasured_metrics(conditions, path_models.list_path_metrics(options))
        single = (
            path_models.prepare_model_single_paths
            if options.by is None
            else path_models.prepare_output_by_head_or_sublayer
        )
        return single(source, options, *where)
    metrics = collect_requested_and_gated_metrics(
        options.metric or DEFAULT_METRICS, conditions, of_model=True
    )
    from attncli.commands.paths import run_trained_model as path_models

    return path_models.prepare_model_paths(source, options, metrics, *where)
