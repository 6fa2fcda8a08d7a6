"""`attn compare`"""

from collections.abc import Callable, Mapping

from attncli.declare.command_table import MODEL_COMMANDS
from attncli.declare.option_declarations import declare_argument, declare_option
from attncli.errors import UsageError, make_unknown_name_error
from attncli.options.value_completion import make_name_completer
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn compare main.json branch.json                          # what changed, largest first
attn compare main.json branch.json --family-wise .05        # … and which changes noise does not explain
attn compare step1000.json step2000.json --top 50 --format markdown
attn compare ./checkpoint-100 ./checkpoint-200 --by 'inspect-model --metric sink'
attn compare old.json new.json --fail-if 'change_in_spreads[measured=sink] > 3'
"""


Reader = Callable[[str], Report]


@question()
def compare(
    *,
    old: str = declare_argument(
        metavar="A", help="A saved JSON report, or a model.", takes_reports=True
    ),
    new: str = declare_argument(
        metavar="B", help="Another one; - reads a report from stdin.", takes_reports=True
    ),
    top: int = declare_option(
        default=20, metavar="N", help="Number of changes to show. [default: 20]"
    ),
    by: str | None = declare_option(
        metavar="COMMAND",
        complete=make_name_completer(lambda: MODEL_COMMANDS),
        help="A and B are models: the command to run on each, as in 'inspect-model --metric sink'.",
    ),
    family_wise: float | None = declare_option(
        metavar="SHARE",
        help="Count the changes that noise alone makes no more often than that among all numbers, as in .05 (Student's t, "
        "Holm), and show how likely each is.",
    ),
    how: RunContext,
) -> Report:
    """What changed between two reports or models, and is it more than noise?

    Lists every number that both have, sorted by its change in standard deviations: of the differences where both hold
    the same texts or seeds, else of both reports. --family-wise shows which changes are more than noise. Also
    lists rows that only one report has, and says whether the weights are the same. Reports need no model.
    """
    from attncli.gates.baseline_changes import require_probability
    from attncli.reports.report_comparison import compare_reports as study

    require_probability(family_wise)
    if top < 0:
        raise UsageError(f"`top` must be 0 or more, not {top}.")
    names = (display_name_of_report(old, "old"), display_name_of_report(new, "new"))
    reader = read_saved_report if by is None else make_model_report_reader(by, (old, new), how)
    return study(
        read_report_if_not_in_memory(old, reader),
        read_report_if_not_in_memory(new, reader),
        names,
        top,
        family_wise,
    )


def display_name_of_report(one: str | Report, otherwise: str) -> str:
    """A file or model by its name, a report at hand by the parameter that it is."""
    return otherwise if isinstance(one, Report) else one


def read_report_if_not_in_memory(one: str | Report, reader: Reader) -> Report:
    return one if isinstance(one, Report) else reader(one)


def read_saved_report(path: str) -> Report:
    from attncli.analysis.source_argument_checks import read_report_argument

    return read_report_argument(path, "compare")


def make_model_report_reader(
    by: str, pair: tuple[str | Report, str | Report], how: RunContext
) -> Reader:
    """Return a function that runs the command on a model; both sources are validated before the
    first run."""
    from attncli.analysis.source_argument_checks import resolve_source_argument

    words = split_model_command_line(by)
    for one in pair:
        if isinstance(one, Report):
            raise UsageError(
                "`by` is run on two models: name them, or leave it out to compare reports."
            )
        resolve_source_argument(one, words[0].replace("-", "_"))

    def run_command_on_model(model: str) -> Report:
        how.show_status(f"{words[0]} {model}")
        return run_command_for_report([words[0], model, *words[1:]], how.settings)

    return run_command_on_model


def split_model_command_line(text: str) -> list[str]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot read `by` '{text}': {str(error).lower()}.") from None
    if not words or words[0] not in MODEL_COMMANDS:
        raise make_unknown_name_error("command of `by`", words[0] if words else "", MODEL_COMMANDS)
    return words


def run_command_for_report(words: list[str], settings: Mapping[str, str] | None) -> Report:
    """Run the command and return its report; if it fails, exit with its reason and exit code."""
    import tempfile
    from pathlib import Path

    from attncli.processes.command_in_subprocess import RunStopped, run_command_to_report_file
    from attncli.reports.json_report_reading import read_report

    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        path = Path(scratch) / "report.json"
        run = run_command_to_report_file(words, path, settings)
        if not run.has_report:
            raise RunStopped(run.code, run.sentence)
        return read_report(str(path))
