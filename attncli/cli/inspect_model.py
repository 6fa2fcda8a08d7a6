"""`attn inspect-model`"""

from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli.groups import grouped
from attncli.cli.head_options import HeadOptions
from attncli.cli.model_options import InputOptions, ModelOptions
from attncli.cli.options import Option, OutputOptions, completion, separated

if TYPE_CHECKING:
    from attncli.records import Report

EXAMPLES = """
attn inspect-model gpt2                                     what each head does, on one screen
attn inspect-model ./checkpoint --text-file essays.txt --with-random-init -o heads.json
attn inspect-model ./checkpoint --metric attention,roles --top 10 --sort induction
attn inspect-model random:llama --random-tokens 512 --metric entropy_normalised --layers 0-1
attn inspect-model ./checkpoint --fail-if 'mean(sink) > 0.5'
"""


def complete() -> list[str]:
    """Names of metrics and groups."""
    from attncli.studies.head_metrics import GROUPS, members

    return [*GROUPS, *(name for group in members().values() for name in group)]


@grouped
def inspect_model(
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="org/name[@revision], ./dir, random:ARCH[?layers=2], or maps.safetensors of --save-maps.",
            show_default=False,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        Option(
            metavar="NAME,…",
            autocompletion=completion(complete),
            help="Metrics or groups: attention, spectra, roles, states, weights, all. "
            "[default: what tells the heads' roles]",
        ),
    ] = None,
    with_random_init: Annotated[
        bool,
        Option("--with-random-init", help="Beside each number that of the same model, untrained."),
    ] = False,
    with_shuffled_text: Annotated[
        bool,
        Option(
            "--with-shuffled-text", help="Beside each number that of the same tokens, shuffled."
        ),
    ] = False,
    tokens: Annotated[
        int | None, Option(metavar="N", help="Longest text, or length of random ones.")
    ] = None,
    seed: Annotated[int, Option(help="Of random tokens, weights and shuffles. [default: 0]")] = 0,
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
    output: OutputOptions,
) -> int:
    """What does each head and layer do: where it looks, how evenly, in which role, and is the model sick?

    Every number stands beside that of even attention over the same visible keys. Maps are looked at in strips while
    the model runs and are never kept, so length costs time and no memory.
    """
    from attncli.cli.progress import progress_bar
    from attncli.cli.provenance import with_provenance
    from attncli.cli.writer import emit, prepare

    conditions = prepare(output)
    names = separated(metric or [])
    from attncli.cli.inspections import model_study

    study = model_study(
        source, names, with_random_init, with_shuffled_text, tokens, seed, heads, model, inputs
    )
    with progress_bar(output.shows_progress) as progress:
        report: Report = study(progress=progress)
    return emit(with_provenance(report), output, conditions)
