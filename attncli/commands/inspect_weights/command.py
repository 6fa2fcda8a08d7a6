"""`attn inspect-weights`"""

from attncli.declare.option_declarations import declare_argument, declare_option
from attncli.options.head_selection import LayerHeadOptions
from attncli.options.model_and_input import WeightFileOptions
from attncli.options.run_and_output import split_comma_separated_names
from attncli.options.value_completion import (
    complete_random_model_name,
    list_weight_metrics,
    make_name_completer,
)
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn inspect-weights gpt2
attn inspect-weights ./checkpoint --metric qk_stable_rank,ov_stable_rank
attn inspect-weights ./checkpoint --layers 0-1 --heads 3
attn inspect-weights ./checkpoint --fail-if 'min(ov_stable_rank) < 1.5'
"""


@question()
def inspect_weights(
    *,
    source: str = declare_argument(
        metavar="MODEL",
        help="A model: org/name[@revision], ./dir, random:ARCH[?layers=2]; files are read without torch.",
        complete=complete_random_model_name,
    ),
    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=make_name_completer(list_weight_metrics),
        usual=True,
        help="Metrics of weights (see `attn list weight-metrics`). [default: all]",
    ),
    seed: int = declare_option(
        default=0, metavar="N", help="Seed of the random matrices to compare with. [default: 0]"
    ),
    heads: LayerHeadOptions,
    files: WeightFileOptions,
    how: RunContext,
) -> Report:
    """What does each head compare and move, by its weights alone?

    Singular values of W_Q W_K^T and W_V W_O of every head, next to those of random matrices of the same shape. Nothing
    is run and no text is read; a checkpoint's weights are read without building the model.
    """
    from attncli.analysis.source_argument_checks import resolve_source_argument
    from attncli.commands.inspect_weights.run import prepare_weight_inspection

    subject = resolve_source_argument(source, "inspect_weights", how.output)
    study = prepare_weight_inspection(
        subject, split_comma_separated_names(metric or []), heads, files, seed
    )
    return how.run_measurement(study)
