"""`attn list`"""

import re
import textwrap
from pathlib import Path

from attncli.cli.typer_options import flatten_option_groups
from attncli.commands.utilities.list.registry_catalogue import (
    ENDINGS,
    LISTS,
    MANNERS,
    SMALL,
    list_catalogue_entries,
)
from attncli.declare.option_declarations import WRITES, Applies, declare_argument, declare_option
from attncli.errors import UsageError, make_unknown_name_error
from attncli.io.standard_streams import is_terminal
from attncli.options.value_completion import make_name_completer

SCHEMA = "schema"
"""The JSON schema of reports: a document of its own, printed on request only."""

ENTRY = re.compile(r"  \S+ +")
"""The beginning of an entry's line: its name."""
NARROWEST = 30
"""Columns of a summary, however narrow the terminal."""

EXAMPLES = """
attn list metrics
attn list variants
attn list architectures
attn list architectures --format csv -o architectures.csv
attn list schema > report.schema.json               # what the JSON of every command looks like
"""


def read_report_schema() -> str:
    """The JSON Schema that every report follows."""
    from importlib.resources import files

    return (files("attncli.reports") / "report.schema.json").read_text(encoding="utf-8")


@flatten_option_groups
def list_registered_names(
    *,
    what: str | None = declare_argument(
        default=None,
        metavar="WHAT",
        complete=make_name_completer(lambda: [*LISTS, SCHEMA]),
        help=f"One of {', '.join(LISTS)}, {SCHEMA} (a JSON Schema of the report). [default: all but the last two]",
    ),
    format: str | None = declare_option(
        metavar="table|csv|json",
        applies=Applies(
            only=("csv",), excludes=("what:schema",), why="the schema is JSON: leave out {setting}."
        ),
        help=(
            "csv and json show everything known about each entry. [default: table, or by -o's extension]"
        ),
    ),
    output: Path | None = declare_option(
        "--output", "-o", metavar="FILE", applies=WRITES, help="Write to FILE (atomically)."
    ),
) -> int:
    """List metrics, patterns, model types and whatever else has a name, one line each."""
    chosen_format = choose_list_output_format(format, output)
    if what is not None and what not in (*LISTS, SCHEMA):
        raise make_unknown_name_error("list", what, [*LISTS, SCHEMA])
    if what == SCHEMA:
        text = read_report_schema()
    else:
        names = SMALL if what is None else (what,)
        text = MANNERS[chosen_format](
            [entry for name in names for entry in list_catalogue_entries(name)]
        )
    write_text_to_file_or_stdout(
        wrap_long_entry_summaries(text)
        if chosen_format == "table" and output is None and is_terminal()
        else text,
        output,
    )
    return 0


def wrap_long_entry_summaries(text: str) -> str:
    """Wrap long summaries under their own column, so that the terminal does not break words."""
    from attncli.cli.help import compute_help_text_width

    return "".join(
        f"{part}\n"
        for line in text.splitlines()
        for part in wrap_entry_summary(line, compute_help_text_width())
    )


def wrap_entry_summary(line: str, width: int) -> list[str]:
    entry = ENTRY.match(line)
    indent = len(entry[0]) if entry else 0
    first, *rest = textwrap.wrap(
        line[indent:], max(width - indent, NARROWEST), break_on_hyphens=False
    ) or [""]
    return [line[:indent] + first, *(" " * indent + part for part in rest)]


def choose_list_output_format(format: str | None, output: Path | None) -> str:
    """Return the requested format, or the one that the file's extension implies."""
    from attncli.io.atomic_files import is_exempt_from_extension, require_writable_path

    if format is not None and format not in MANNERS:
        raise make_unknown_name_error("format of lists", format, MANNERS)
    if output is None:
        return format or "table"
    require_writable_path(output)
    ending = output.suffix.lower()
    if format is None and ending not in ENDINGS and not is_exempt_from_extension(output):
        raise UsageError(
            f"--output {output} does not say in which format: end it in {', '.join(ENDINGS)}, or add --format csv."
        )
    return format or ENDINGS.get(ending, "table")


def write_text_to_file_or_stdout(text: str, output: Path | None) -> None:
    from attncli.io.atomic_files import write_atomically
    from attncli.io.standard_streams import write_stdout

    if output is None:
        write_stdout(text)
    else:
        write_atomically(output, lambda path: path.write_text(text, encoding="utf-8"))
