"""The typer app, built from the table of commands; a command is imported only when it is run or
shows its help.

Commands are typer's own, with what it lacks: `--help-all`, values read without pydantic, an optional
value of --plot, and an error where an option is given twice or has become a command.
"""

import copy
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo, TyperInfo

from attncli.cli.command_tree import register_app_builder
from attncli.cli.typer_options import ValueReader
from attncli.declare.command_table import COMMANDS, GATE, GROUPS, import_command_function
from attncli.declare.replaced_options import refuse_option_that_became_command
from attncli.errors import AttnError, UsageError
from attncli.io.standard_streams import write_stdout

HELP = (
    "Measure attention matrices exactly, say what the numbers mean, fail the build when they "
    "go wrong.\n\nExit codes: 0 fine, 1 a gate failed, 2 usage, 3 the input cannot be analysed, "
    "4 memory or disk, 5 no baseline to compare with, 70 a bug, 130 interrupted."
)
EXAMPLES = (
    "attn rank-collapse\nattn inspect-model gpt2\nattn rank-collapse --help-all\nattn guide metrics"
)


HELP_NAMES = {"help_option_names": ["-h", "--help"]}
"""On each command, not on the root alone: a command may be parsed without its parents."""
MANY = 16
"""Options from which on the short help leaves some out."""

PLOT_FILE = re.compile(
    r"[.](png|svg|pdf|jpe?g|gif|webp|e?ps|bmp|tiff?|html?|xml|ya?ml|txt|md|csv)$", re.IGNORECASE
)
"""Extensions that make the word after --plot its target; the writer decides which of them it can
draw."""


class CommandMixin:
    """What commands and groups have besides typer's own: --help-all, help laid out by us, values
    read without pydantic, and a line that is checked before it is parsed."""

    help_all: Any
    has_many_options: bool
    """Whether it has too many options for one screen."""
    params: list[Any]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        line = rewrite_arguments_for_typer(args)
        try:
            refuse_repeated_options(self, ctx, line)
            found: list[str] = super().parse_args(ctx, line)  # type: ignore[misc]
        except typer.TyperException:
            for word in line:
                if word.startswith("--"):
                    path = ctx.command_path.removeprefix("attn ")
                    refuse_option_that_became_command(path, word[2:].partition("=")[0])
            raise
        return found

    def get_params(self, ctx: Any) -> list[Any]:
        own: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        if not hasattr(self, "help_all"):
            for one in own:  # on each one: typer makes them of its own classes
                one.get_runtime_param = partial(ValueReader, one.get_runtime_param)
            own[-1].callback = show_help
            self.help_all = copy.copy(own[-1])  # the same option under another name
            self.help_all.name, self.help_all.opts = "help_all", ["--help-all"]
            self.help_all.help = "Show every option and exit."
            options = [one.param_type_name for one in self.params].count("option")
            self.has_many_options = options > MANY
            self.help_all.hidden = not self.has_many_options  # it would show no more
            self.help_all.callback = partial(show_help, everything=True)
        return [*own, self.help_all]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from attncli.cli.help import format_help_page

        formatter.write(format_help_page(self, ctx))


class Command(CommandMixin, TyperCommand):
    """A command, which takes the defaults that apply to it."""

    def invoke(self, ctx: Any) -> Any:
        """Run it without the defaults that do not fit; an error about another names the line that sets it."""
        from attncli.cli.config.settings import (
            find_setting_of_option,
            reset_option_to_default,
            resolve_option_settings,
        )

        for name in resolve_option_settings(ctx).left_out:
            reset_option_to_default(ctx, name)
        try:
            return super().invoke(ctx)
        except AttnError as error:
            own = [find_setting_of_option(ctx, name) for name in error.about]
            places = dict.fromkeys(one.where for one in own if one is not None)
            if places and not str(error).startswith(tuple(places)):
                error.args = (f"{', '.join(places)}: {error}",)
            raise


class Group(CommandMixin, TyperGroup):
    """A group of commands."""


@dataclass(frozen=True)
class LazyCommands(Mapping[str, Any]):
    """The commands of a group by name, each built on first lookup."""

    makers: Mapping[str, Callable[[], Any]]
    commands_by_name: dict[str, Command | Group] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name not in self.commands_by_name:
            self.commands_by_name[name] = self.makers[name]()
        return self.commands_by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def rewrite_arguments_for_typer(arguments: Sequence[str]) -> list[str]:
    """The line in forms that typer reads; --debug is for `main`, and allowed anywhere.

    `--config FILE` belongs to the whole program, whose options precede the command. `--plot
    FILE.png` draws to a file and a bare `--plot` in the terminal: an optional value, which typer
    lacks.
    """
    config: list[str] = []
    line: list[str] = []
    for part in arguments:
        if part == "--debug":
            continue
        if config and config[-1] == "--config":
            config[-1] = f"--config={part}"
        elif part == "--config" or part.startswith("--config="):
            config.append(part)
        elif line and line[-1] == "--plot=terminal" and PLOT_FILE.search(part):
            line[-1] = f"--plot={part}"
        else:
            line.append("--plot=terminal" if part == "--plot" else part)
    return config + line


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


def show_help(ctx: Any, parameter: Any, requested: bool, everything: bool = False) -> None:
    """The callback of --help; typer's own bypasses `write_stdout`."""
    if requested and not ctx.resilient_parsing:
        from attncli.cli.help import format_help_page

        write_stdout(format_help_page(ctx.command, ctx, everything).rstrip("\n") + "\n")
        ctx.exit()


def show_version(context: typer.Context, is_set: bool) -> None:
    if is_set and not context.resilient_parsing:
        from attncli import __version__

        write_stdout(f"attn {__version__}\n")
        if context.params.get("verbose"):
            from attncli.capture.one_pass.compiled_library import find_compiled_library

            write_stdout(
                f"attention: {find_compiled_library().describe_attention_implementation()}\n"
            )
        raise typer.Exit


def attn(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, help="Show the version.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            is_eager=True,  # is read before --version, which ends the command
            help="With --version: also how attention is computed here, and why.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show a traceback on errors; allowed anywhere on the line."),
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help=(
                "Read options and checks from FILE instead of attn.toml or pyproject.toml; allowed anywhere on the "
                "line."
            ),
        ),
    ] = None,
) -> None:
    from attncli.cli.config.settings import CONFIG, build_default_map, collect_option_settings

    if config is not None:
        os.environ[CONFIG] = config  # for the runs that this one starts, too
    context.obj = collect_option_settings(context.command)
    context.default_map = build_default_map(context.obj)


@cache
def build_app() -> Any:
    """The group of all commands, built once per process."""
    names = dict.fromkeys(path.split()[0] for path in COMMANDS)
    makers = {
        name: partial(build_subgroup if name in GROUPS else build_command, name) for name in names
    }
    summaries = {name: GROUPS.get(name) or COMMANDS[name].summary for name in names}
    group = build_group("attn", makers, summaries, help=HELP, epilog=EXAMPLES, callback=attn)
    group.params += typer.main.get_install_completion_arguments()
    return group


def build_group(
    name: str, makers: Mapping[str, Callable[[], Any]], summaries: Mapping[str, str], **about: Any
) -> Any:
    """Build a group whose commands are built on lookup."""
    info = TyperInfo(
        typer.Typer(rich_markup_mode=None),
        name=name,
        cls=Group,
        no_args_is_help=True,
        context_settings=HELP_NAMES,
        **about,
    )
    group = typer.main.get_group_from_info(
        info, pretty_exceptions_short=True, suggest_commands=True, rich_markup_mode=None
    )
    group.commands = LazyCommands(makers)  # type: ignore[assignment]  # typer only reads it
    group.summaries = summaries  # type: ignore[attr-defined]
    return group


def build_subgroup(name: str) -> Any:
    """`attn generate`, with its commands of two words."""
    paths = {path.split()[1]: path for path in COMMANDS if path.split()[0] == name}
    makers = {word: partial(build_command, path) for word, path in paths.items()}
    summaries = {word: COMMANDS[path].summary for word, path in paths.items()}
    return build_group(name, makers, summaries, help=GROUPS[name])


def build_command(path: str) -> Any:
    """Build one command: import its module, and add the options of its kind of answer."""
    function = import_command_function(path)
    # a question; else it reads its options, and writes, by itself
    if "any_module" in vars(function):
        from attncli.cli.command_execution import make_command_function

        function = make_command_function(function, COMMANDS[path])
    module = sys.modules[function.__module__]
    passes_options_on = {"ignore_unknown_options": hasattr(module, "PASSES_OPTIONS_ON")}
    info = CommandInfo(
        path.split()[-1],
        cls=Command,
        callback=function,
        epilog=module.EXAMPLES,
        context_settings=HELP_NAMES | passes_options_on,
    )
    command: Any = typer.main.get_command_from_info(
        info, pretty_exceptions_short=True, rich_markup_mode=None
    )
    for option in command.params:
        if option.name == "fail_if":
            option.help = option.help.replace(GATE, COMMANDS[path].gate)
    return command


register_app_builder(build_app)
