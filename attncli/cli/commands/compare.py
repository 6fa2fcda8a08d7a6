"""`attn compare`"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.cli.typer_options import grouped
from attncli.errors import UsageError, unknown_name
from attncli.options.completion import completion
from attncli.options.declared import Argument, Option
from attncli.options.shared import OutputOptions
from attncli.processes.runs import OF_MODELS

if TYPE_CHECKING:
    from attncli.records import Report

EXAMPLES = """
attn compare main.json branch.json                          what moved, in spreads of both
attn compare step1000.json step2000.json --top 50 --format markdown
attn compare ./checkpoint-100 ./checkpoint-200 --by 'inspect-model --metric sink'
attn compare old.json new.json --fail-if 'change_in_spreads[measured=sink] > 3'
"""


@grouped
def compare(
    *,
    old: Annotated[
        str,
        Argument(metavar="A", help="A saved JSON report, or a model."),
    ],
    new: Annotated[
        str,
        Argument(metavar="B", help="Another one; - is a report on stdin."),
    ],
    top: Annotated[int, Option(metavar="N", help="Changes to show. [default: 20]")] = 20,
    by: Annotated[
        str | None,
        Option(
            metavar="COMMAND",
            complete=completion(lambda: OF_MODELS),
            help="A and B are models: what is run on each, as in 'inspect-model --metric sink'.",
        ),
    ] = None,
    family_wise: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Call a change clear of noise only where it is that unlikely among all numbers, as in .05 (Student's t, Holm).",
        ),
    ] = None,
    output: OutputOptions,
) -> int:
    """What moved between two reports or models, and is it more than noise?

    Every number that both have, sorted by its change in spreads: of the differences, where both hold the same texts or
    seeds, else of both reports. Rows that one of them lacks are said, and so is whether the weights are the same.
    Reports need no model.
    """
    from attncli.api import network_sources as sources
    from attncli.cli.writer import emit, prepare
    from attncli.gates import require_share
    from attncli.reports.provenance import with_provenance
    from attncli.studies.reports.differences import compare as study

    conditions = prepare(output)
    require_share(family_wise)
    if top < 0:
        raise UsageError(f"--top must be 0 or more, not {top}.")
    load = partial(sources.report, asker="compare")
    if by is not None:
        words = command_line(by)
        for text in (old, new):
            sources.named(text, words[0].replace("-", "_"))
        load = partial(measured, words)
    report = study(load(old), load(new), (old, new), top, family_wise)
    return emit(with_provenance(report), output, conditions)


def command_line(text: str) -> list[str]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot read --by '{text}': {str(error).lower()}.") from None
    if not words or words[0] not in OF_MODELS:
        raise unknown_name("command of --by", words[0] if words else "", OF_MODELS)
    return words


def measured(words: list[str], model: str) -> "Report":
    """The report of a model; if there is none, that run's reason and exit code are this one's."""
    import tempfile

    from attncli.processes.runs import Stopped, run_to_file
    from attncli.reports import read

    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        path = Path(scratch) / "report.json"
        run = run_to_file([words[0], model, *words[1:]], path)
        if not run.finished:
            raise Stopped(run.code, run.sentence)
        return read(str(path))
