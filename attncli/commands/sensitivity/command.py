"""`attn sensitivity`"""

from attncli.declare.option_declarations import declare_option
from attncli.options.model_and_input import (
    MODEL_ARGUMENT,
    STACK_OPTION,
    InputOptions,
    WholeModelOptions,
)
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn sensitivity gpt2 --text 'A dog barked at her.'
attn sensitivity ./checkpoint --text-file essays.txt --tokens 64
attn sensitivity random:llama --random-tokens 32 --directions 16
attn sensitivity ./checkpoint --fail-if 'sensitivity[position=0] > 5'
"""


@question(own=("tokenizer", "inputs"))
def sensitivity(
    *,
    source: str = MODEL_ARGUMENT,
    directions: int | None = declare_option(
        metavar="N",
        usual=True,
        help=(
            "Number of random output directions, one backward pass each; as many as the width is exact. "
            "[default: all where that is cheap, else 32]"
        ),
    ),
    stack: str | None = STACK_OPTION,
    tokens: int | None = declare_option(
        metavar="N",
        usual=True,
        of_any_model=True,
        help="Maximum length of a text in tokens, or length of random ones.",
    ),
    seed: int = declare_option(
        default=0, metavar="N", help="Seed of random tokens, weights, directions. [default: 0]"
    ),
    model: WholeModelOptions,
    inputs: InputOptions,
    how: RunContext,
) -> Report:
    """How sensitive is the last token's final state to each token's initial state?

    Gradients of the last token's state after the last block with respect to every token's state before the first
    block, compared with what the sum over paths of attention predicts, and with the effect of repeating the last token.
    """
    from attncli.analysis.source_argument_checks import resolve_source_argument
    from attncli.commands.sensitivity.report import METRICS
    from attncli.gates import refuse_gates_on_unmeasured_metrics
    from attncli.options.model_and_input import check_options_before_model_loading

    subject = resolve_source_argument(source, "sensitivity", how.output)
    check_options_before_model_loading(subject, model, inputs, tokens, seed)
    model.refuse_half_precision()
    refuse_gates_on_unmeasured_metrics(how.conditions, METRICS)
    from attncli.commands.sensitivity.run import prepare_sensitivity_measurement

    study = prepare_sensitivity_measurement(
        subject, directions, stack, model, inputs, tokens=tokens, seed=seed, say=how.say
    )
    return how.run_measurement(study)
