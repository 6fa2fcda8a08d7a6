"""`attn attribute`"""

from attncli.declare.option_declarations import REQUIRED, declare_option
from attncli.errors import UsageError
from attncli.options.model_and_input import MODEL_ARGUMENT, InputOptions, WholeModelOptions
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn attribute ./checkpoint --text 'A dog barked at her.' --token dog
attn attribute gpt2 --text 'The capital of France is' --token -1 --relevance top
attn attribute random:llama --random-tokens 16 --token 3 --top 5
"""


@question(own=("tokenizer",))
def attribute(
    *,
    source: str = MODEL_ARGUMENT,
    token: str = declare_option(
        default=REQUIRED,
        metavar="TOKEN",
        usual=True,
        help=(
            "The token whose final state is attributed: a position (negative counts from the end) or a substring of "
            "the text."
        ),
    ),
    relevance: str | None = declare_option(
        metavar="TARGET",
        usual=True,
        help=(
            "Also report Chefer's relevance for TARGET: a class, a token of the vocabulary, an id, top (the highest "
            "score) or state (the state itself)."
        ),
    ),
    top: int | None = declare_option(
        metavar="N", usual=True, help="Show only the N tokens with the largest share."
    ),
    tokens: int | None = declare_option(
        metavar="N",
        usual=True,
        of_any_model=True,
        help="Maximum length of a text in tokens, or length of random ones.",
    ),
    seed: int = declare_option(
        default=0, metavar="N", help="Seed of random tokens and weights. [default: 0]"
    ),
    model: WholeModelOptions,
    inputs: InputOptions,
    how: RunContext,
) -> Report:
    """Which input tokens does a token's state after the last block come from?

    With the attention, norm denominators and activation ratios of the pass held fixed, the state is a sum of what each
    input token brings, and of constants; the parts add up to the state, which every run checks.
    """
    from attncli.analysis.source_argument_checks import resolve_source_argument
    from attncli.options.model_and_input import check_options_before_model_loading

    subject = resolve_source_argument(source, "attribute", how.output)
    check_options_before_model_loading(subject, model, inputs, tokens, seed)
    model.refuse_half_precision()
    if top is not None and top < 1:
        raise UsageError(f"`top={top!r}`: it must be at least 1.")
    from attncli.commands.attribute.run import prepare_attribution_measurement

    study = prepare_attribution_measurement(
        subject, token, relevance, top, how, model=model, inputs=inputs, tokens=tokens, seed=seed
    )
    return how.run_measurement(study)
