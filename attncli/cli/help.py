"""Help texts: examples as one types them, then options in named groups.

`--help` of a command with many options shows the most common ones (`usual` where they are
declared), so that it fits a screen; `--help-all` shows every one.

Plain text with bold headings. Typer's own rich panels cost 40 ms more on every `--help` (they
import a Markdown parser) and cannot keep an example on a line of its own.
"""

import copy
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from attncli.cli.command_tree import command_path
from attncli.cli.values_without_pydantic import ValueReader
from attncli.declare.replaced_options import refuse_option_that_became_command
from attncli.errors import UsageError
from attncli.io.standard_streams import write_stdout

NAMES_WIDTH = 34
USUAL, WIDEST = 80, 110
"""Columns: the default without a terminal or COLUMNS, and the most that are easy to read."""
MANY = 16
"""Options from which on the short help leaves some out."""
FIRST_EXAMPLES = 4
HELP_ALL = "--help-all"
OPTION = re.compile(r""" (?=--?[a-z](?:[^'"]|'[^']*'|"[^"]*")*$)""")
"""Where one begins that no quotes enclose."""


class HelpMixin:
    """Lays out help here, and adds --help-all; where that shows no more, it is not listed."""

    help_all: Any

    def get_params(self, ctx: Any) -> list[Any]:
        own: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        if not hasattr(self, "help_all"):
            for one in own:  # on each one: typer makes them of its own classes
                one.get_runtime_param = partial(ValueReader, one.get_runtime_param)
            own[-1].callback = show_help
            self.help_all = copy.copy(own[-1])  # the same option under another name
            self.help_all.name, self.help_all.opts = "help_all", [HELP_ALL]
            self.help_all.help = "Show every option and exit."
            self.help_all.hidden = not has_many_options(self)
            self.help_all.callback = partial(show_help, everything=True)
        return [*own, self.help_all]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for word in args:
            if word.startswith("--"):
                path = " ".join(command_path(ctx))
                refuse_option_that_became_command(path, word[2:].partition("=")[0])
        refuse_repeated_options(self, ctx, args)
        found: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(format_page(self, ctx))


class Command(HelpMixin, TyperCommand):
    """A command, which takes the defaults that apply to it."""

    def invoke(self, ctx: Any) -> Any:
        from attncli.cli.config.defaults import run_with_defaults

        return run_with_defaults(ctx, super().invoke)


def show_help(ctx: Any, parameter: Any, requested: bool, everything: bool = False) -> None:
    """The callback of --help; typer's own bypasses `write_stdout`."""
    if requested and not ctx.resilient_parsing:
        write_stdout(format_page(ctx.command, ctx, everything).rstrip("\n") + "\n")
        ctx.exit()


class Group(HelpMixin, TyperGroup):
    """A group of commands."""


def refuse_repeated_options(command: Any, ctx: Any, args: list[str]) -> None:
    """Refuse a single-value option that occurs twice: typer would drop one of the values silently."""
    if ctx.resilient_parsing:  # a line that is still being typed
        return
    _, _, found = command.make_parser(ctx).parse_args(args=list(args))
    seen = set()
    for parameter in found:
        single = parameter.param_type_name == "option" and not parameter.multiple
        if single and not parameter.is_eager and parameter.name in seen:
            names = "/".join([parameter.opts[0], *parameter.secondary_opts[:1]])
            raise UsageError(f"{names} is given twice: leave one out.")
        seen.add(parameter.name)


def format_page(command: Any, ctx: Any, everything: bool = False) -> str:
    brief = not everything and has_many_options(command)
    return "\n".join(format_lines(command, ctx, brief)) + "\n"


def has_many_options(command: Any) -> bool:
    """Too many options for a screen."""
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    return len(options) > MANY


def format_lines(command: Any, ctx: Any, brief: bool) -> Iterator[str]:
    """Format usage, the question, examples, commands or options by group, further reading."""
    pieces = " ".join(command.collect_usage_pieces(ctx))
    yield f"{format_heading('Usage:')} {ctx.command_path} {pieces}"
    yield ""
    paragraphs = (command.help or "").split("\n\n")
    for paragraph in paragraphs[:1] if brief else paragraphs:
        yield from wrap_text(paragraph)
        yield ""
    if command.epilog:
        examples = command.epilog.strip().splitlines()
        yield format_heading("Examples")
        for line in examples[:FIRST_EXAMPLES] if brief else examples:
            yield from wrap_example(line, text_width())
        yield ""
    summaries = getattr(command, "summaries", None)  # of a group
    if summaries is not None:
        yield from format_section("Commands", list(summaries.items()))
    for title, records in group_options(command, ctx, brief).items():
        yield from format_section(title, records)
    yield from format_further_reading(command, ctx, brief)


def wrap_example(line: str, width: int) -> list[str]:
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
    remarks = [f"    # {remark}"] if remark else []
    return [f"  {line}" for line in " \\\n".join(lines).split("\n")] + remarks


def format_further_reading(command: Any, ctx: Any, brief: bool) -> Iterator[str]:
    """List the omitted options and the guides."""
    from attncli.guides import guides_for

    if brief:
        hidden = sum(not is_shown_in_short_help(command, parameter) for parameter in command.params)
        yield f"{hidden} more options: {ctx.command_path} {HELP_ALL}"
    guides = guides_for(ctx.command_path)
    if guides:
        yield from wrap_text(f"Guides: attn guide {', '.join(guides)}")


def is_shown_in_short_help(command: Any, parameter: Any) -> bool:
    """Arguments always are."""
    option = getattr(command.callback, "options", {}).get(parameter.name)
    return parameter.param_type_name == "argument" or (option is not None and option.usual)


def group_options(command: Any, ctx: Any, brief: bool) -> dict[str, list[tuple[str, str]]]:
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


def format_section(title: str, records: list[tuple[str, str]]) -> Iterator[str]:
    yield format_heading(title)
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
        folded, text_width(), initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False
    ) or [pad]


def text_width() -> int:
    return max(60, min(WIDEST, shutil.get_terminal_size((USUAL, 24)).columns - 1))


def format_heading(text: str) -> str:
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stdout.isatty() else f"\033[1m{text}\033[0m"
