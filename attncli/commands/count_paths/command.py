"""`attn count-paths`"""

from attncli.declare.option_declarations import SYNTHETIC, Applies, declare_option
from attncli.options.model_and_input import SOURCE_ARGUMENT, FetchOptions
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn count-paths --layers 96 --heads 96             # from sizes: nothing is run
attn count-paths ./checkpoint                       # from a config: no weights are read
attn count-paths random:llama?layers=4
attn count-paths --layers 12 --heads 12 --no-skip
"""


OF_NO_SOURCE = Applies(
    to=SYNTHETIC, why="`layers` and `heads` are those of {source}: leave them out."
)


@question()
def count_paths(
    *,
    source: str | None = SOURCE_ARGUMENT,
    layers: int | None = declare_option(
        metavar="N", usual=True, applies=OF_NO_SOURCE, help="Layers. [default: 12]"
    ),
    heads: int | None = declare_option(
        metavar="N", usual=True, applies=OF_NO_SOURCE, help="Heads of a layer. [default: 4]"
    ),
    skip: bool = declare_option(
        "--skip/--no-skip",
        default=True,
        usual=True,
        help="With skip connections, or without: then every path has the full length.",
    ),
    files: FetchOptions,
    how: RunContext,
) -> Report:
    """How many paths of each length does the attention of a network have, from its sizes alone?

    A path picks one head, or the skip, in each layer; its length is the number of heads. The sizes are those given, or
    those of a network file or a model's config: nothing is run and no weights are read.
    """
    from attncli.analysis.source_argument_checks import resolve_source_argument
    from attncli.commands.count_paths.run import prepare_path_count, refuse_gates_on_other_metrics

    refuse_gates_on_other_metrics(how.conditions)
    subject = resolve_source_argument(source, "count_paths", how.output)
    count = prepare_path_count(subject, layers, heads, skip, files)
    return how.run_measurement(count)
