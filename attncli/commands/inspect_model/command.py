"""The question of `attn inspect-model`."""

from collections.abc import Sequence

from attncli.commands.inspect_model.options import InspectionOptions
from attncli.declare.option_declarations import declare_argument
from attncli.errors import UsageError
from attncli.gates import Condition
from attncli.io.tensor_file_extensions import require_safetensors_extension
from attncli.options.head_selection import HeadOptions
from attncli.options.model_and_input import InputOptions, ModelOptions
from attncli.options.value_completion import complete_random_model_name
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn inspect-model gpt2                                     # what each head does, on one screen
attn inspect-model ./checkpoint --text-file essays.txt --with-random-init -o heads.json
attn inspect-model ./checkpoint --metric attention,roles --top 10 --sort induction
attn inspect-model random:llama --random-tokens 512 --metric entropy_normalised --layers 0-1
attn inspect-model ./checkpoint --heads 5.1,5.3 --plot heads.png --save-maps maps.safetensors
attn inspect-model ./checkpoint --fail-if 'mean(sink) > 0.5'
"""


@question(own=("tokenizer", "inputs"), any_module=True)
def inspect_model(
    *,
    source: str = declare_argument(
        metavar="MODEL",
        help=("A model: org/name[@revision] on the Hub, ./folder, random:ARCH[?layers=2]."),
        complete=complete_random_model_name,
    ),
    options: InspectionOptions,
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
    how: RunContext,
) -> Report:
    """What does each head and layer do: where it looks, how uniformly, in which role, and is the model sick?

    Numbers come with their value for uniform attention over the same visible keys. Maps are measured in strips while the
    model runs, so memory grows with the number of tokens, not with its square.
    """

    if options.save_maps is not None:
        require_safetensors_extension(options.save_maps)
    if options.pairs == 0:
        raise UsageError("`pairs=0`: it must be at least 1.")
    from attncli.analysis.source_argument_checks import resolve_source_argument
    from attncli.options.model_and_input import check_options_before_model_loading

    subject = resolve_source_argument(source, "inspect_model", how.output, options.save_maps)
    check_options_before_model_loading(subject, model, inputs, options.tokens, options.seed)
    validate_metrics_heads_and_gates(
        how.conditions, options.metric_names, options.pairs or 0, heads
    )
    from attncli.commands.inspect_model.run import prepare_model_inspection

    return how.run_measurement(
        prepare_model_inspection(subject, options, heads, model, inputs, how)
    )


def validate_metrics_heads_and_gates(
    conditions: Sequence[Condition], metric: Sequence[str], pairs: int, heads: HeadOptions
) -> None:
    """Refuse impossible layers, heads, metrics, orders and gates before torch is imported."""
    from attncli.analysis.heads.head_selection import select_head_ranking
    from attncli.analysis.heads.metric_selection import (
        LINEAR_HEADS,
        choose_metrics,
        list_metrics_by_group,
    )
    from attncli.gates import refuse_gates_on_unmeasured_metrics

    heads.choose_layers_to_measure()
    heads.make_head_filter()
    chosen = choose_metrics(metric, pairs)
    select_head_ranking(heads, chosen.heads)
    if conditions:
        from attncli.analysis.heads.report_rows.token_pair_and_completeness_definitions import (
            COMPLETENESS,
        )

        others = [name for group in list_metrics_by_group().values() for name in group]
        of_linear = [COMPLETENESS, *([] if metric else LINEAR_HEADS)]
        measured = [*chosen.metric_definitions(), *of_linear]
        refuse_gates_on_unmeasured_metrics(conditions, measured, others)
