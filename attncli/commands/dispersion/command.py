"""`attn dispersion`"""

from attncli.declare.option_declarations import REQUIRED, declare_option
from attncli.options.head_selection import HeadChoice
from attncli.options.model_and_input import MODEL_ARGUMENT, ModelOptions, TextsByLengthOptions
from attncli.options.run_and_output import split_comma_separated_names
from attncli.options.value_completion import list_head_metrics, make_name_completer
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn dispersion gpt2 --lengths 64:1024
attn dispersion ./checkpoint --lengths 32:256 --text-file essays.txt
attn dispersion ./checkpoint --lengths 64,128,256 --metric entropy --heads 5.1
attn dispersion random:llama --lengths 16:128 --fail-if 'largest_weight_slope < -0.9'
"""


@question(own=("tokenizer",))
def dispersion(
    *,
    source: str = MODEL_ARGUMENT,
    lengths: str = declare_option(
        default=REQUIRED,
        metavar="FROM:TO",
        usual=True,
        help="Lengths that the texts are cut to: doubling FROM … TO, FROM:TO:STEPS, or a list 64,128,512.",
    ),
    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=make_name_completer(list_head_metrics),
        usual=True,
        help="Metrics of heads (see `attn list attention-metrics`). [default: largest_weight,entropy]",
    ),
    seed: int = declare_option(
        default=0, metavar="N", help="Seed of random tokens and weights. [default: 0]"
    ),
    heads: HeadChoice,
    model: ModelOptions,
    inputs: TextsByLengthOptions,
    how: RunContext,
) -> Report:
    """How does the attention of each head disperse as the text gets longer?

    Cuts the texts, or random tokens where none is given, to each length, measures every head, and fits how its numbers
    grow with the length: a head whose largest weight falls like 1/n loses its focus, one whose weight stays keeps it.
    """
    from attncli.analysis.source_argument_checks import resolve_source_argument
    from attncli.options.model_and_input import check_options_before_model_loading

    subject = resolve_source_argument(source, "dispersion", how.output)
    check_options_before_model_loading(subject, model, inputs, None, seed)
    from attncli.commands.dispersion.run import prepare_dispersion_measurement

    names = split_comma_separated_names(metric or [])
    study = prepare_dispersion_measurement(
        subject, lengths, names, heads, how.conditions, model=model, inputs=inputs, seed=seed
    )
    return how.run_measurement(study)
