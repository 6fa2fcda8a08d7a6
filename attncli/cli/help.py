"""Help texts: examples as one types them, then options in named groups.

`--help` of a command with many options shows the most common ones (`usual` where they are
declared), so that it fits a screen; `--help-all` shows every one.

Plain text with bold headings. Typer's own rich panels cost 40 ms more on every `--help` (they
import a Markdown parser) and cannot keep an example on a line of its own.
"""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer import Context
    from typer.core import TyperCommand, TyperGroup

NAMES_WIDTH = 34
USUAL, WIDEST = 80, 110
"""Columns: the default without a terminal or COLUMNS, and the most that are easy to read."""
FIRST_EXAMPLES = 4
OPTION = re.compile(r""" (?=--?[a-z](?:[^'"]|'[^']*'|"[^"]*")*$)""")
"""Where one begins that no quotes enclose."""


def format_help_page(command: Any, ctx: Any, everything: bool = False) -> str:
    brief = not everything and command.has_many_options
    return "\n".join(format_help_lines(command, ctx, brief)) + "\n"


def format_help_lines(
    command: "TyperCommand | TyperGroup", ctx: "Context", brief: bool
) -> Iterator[str]:
    """Format usage, the question, examples, commands or options by group, further reading."""
    pieces = " ".join(command.collect_usage_pieces(ctx))
    yield f"{format_help_heading('Usage:')} {ctx.command_path} {pieces}"
    yield ""
    paragraphs = (command.help or "").split("\n\n")
    for paragraph in paragraphs[:1] if brief else paragraphs:
        yield from wrap_text(paragraph)
        yield ""
    if command.epilog:
        examples = command.epilog.strip().splitlines()
        yield format_help_heading("Examples")
        for line in examples[:FIRST_EXAMPLES] if brief else examples:
            yield from wrap_command_example(line, compute_help_text_width())
        yield ""
    summaries = getattr(command, "summaries", None)  # of a group
    if summaries is not None:
        yield from format_help_section("Commands", list(summaries.items()))
    for title, records in group_options_by_help_panel(command, ctx, brief).items():
        yield from format_help_section(title, records)
    yield from format_further_reading(command, ctx, brief)


def wrap_command_example(line: str, width: int) -> list[str]:
    """The line itself if it fits; else break it before options, as a shell accepts it."""
    if len(line) + 2 <= width:
        return [f"  {line}"]
    typed, remark = map(str.strip, (line.partition("  ")[0], line.partition("  ")[2]))
    if remark and len(typed) + len(remark) + 4 <= width:
        return [f"  {typed}  {remark}"]
    lines = [""]
    for part in OPTION.split(typed):
        if lines[-1] and len(lines[-1]) + len(part) + 5 > width:
            lines.append("  ")
        lines[-1] += f" {part}" if lines[-1].strip() else part
    remarks = [f"    {remark}"] if remark else []
    return [f"  {line}" for line in " \\\n".join(lines).split("\n")] + remarks


def format_further_reading(command: Any, ctx: Any, brief: bool) -> Iterator[str]:
    """List the omitted options and the guides."""
    from attncli.guides import list_guides_of_command

    if brief:
        hidden = sum(not is_shown_in_short_help(command, parameter) for parameter in command.params)
        yield f"{hidden} more options: {ctx.command_path} --help-all"
    guides = list_guides_of_command(ctx.command_path)
    if guides:
        yield from wrap_text(f"Guides: attn guide {', '.join(guides)}")


def is_shown_in_short_help(command: Any, parameter: Any) -> bool:
    """Arguments always are."""
    option = getattr(command.callback, "options", {}).get(parameter.name)
    return parameter.param_type_name == "argument" or (option is not None and option.usual)


def group_options_by_help_panel(
    command: Any, ctx: Any, brief: bool
) -> dict[str, list[tuple[str, str]]]:
    """Help records by panel, in order of appearance; panels without a name come first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        if brief and not is_shown_in_short_help(command, parameter):
            continue
        record = parameter.get_help_record(ctx)
        if record is not None:
            argument = parameter.param_type_name == "argument"
            title = parameter.rich_help_panel or ("Arguments" if argument else "Options")
            names = record[0].partition(" <")[0]  # typer adds the Python type of an argument
            groups.setdefault(title, []).append((names, record[1]))
    return groups


def format_help_section(title: str, records: list[tuple[str, str]]) -> Iterator[str]:
    yield format_help_heading(title)
    for names, text in records:
        described = wrap_text(text, NAMES_WIDTH)
        if len(names) + 4 > NAMES_WIDTH:
            yield f"  {names}"
        else:
            described[0] = f"  {names}".ljust(NAMES_WIDTH) + described[0].lstrip()
        yield from described
    yield ""


def wrap_text(text: str, indent: int = 0) -> list[str]:
    pad = " " * indent
    folded = " ".join(text.split())
    return textwrap.wrap(
        folded,
        compute_help_text_width(),
        initial_indent=pad,
        subsequent_indent=pad,
        break_on_hyphens=False,
    ) or [pad]


def compute_help_text_width() -> int:
    return max(60, min(WIDEST, shutil.get_terminal_size((USUAL, 24)).columns - 1))


def format_help_heading(text: str) -> str:
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stdout.isatty() else f"\033[1m{text}\033[0m"
