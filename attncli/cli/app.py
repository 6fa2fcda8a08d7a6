"""The typer app, built from the table of commands; a command is imported only when it is run or
shows its help."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from typer.models import CommandInfo, TyperInfo

from attncli.cli.command_tree import register_app_builder
from attncli.cli.help import Command, Group
from attncli.declare.commands import COMMANDS, GATE, GROUPS, import_function
from attncli.io.standard_streams import write_stdout

HELP = (
    "Measure attention matrices exactly, say what the numbers mean, fail the build when they "
    "go wrong.\n\nExit codes: 0 fine, 1 a gate failed, 2 usage, 3 the input cannot be analysed, "
    "4 memory or disk, 5 no baseline to compare with, 70 a bug, 130 interrupted."
)
EXAMPLES = (
    "attn rank-collapse\nattn inspect-model gpt2\nattn rank-collapse --help-all\nattn guide metrics"
)


class LazyCommands(Mapping[str, Any]):
    """The commands of a group by name, each built on first lookup."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        self.makers = makers
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = self.makers[name]()
        return self.made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def show_version(context: typer.Context, is_set: bool) -> None:
    if is_set and not context.resilient_parsing:
        from attncli import __version__

        write_stdout(f"attn {__version__}\n")
        if context.params.get("verbose"):
            from attncli.capture.one_pass.compiled_library import find_library

            write_stdout(f"attention: {find_library().describe()}\n")
        raise typer.Exit


def attn(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, help="Show the version."),
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
    from attncli.cli.config.config_file import CONFIG
    from attncli.cli.config.settings import build_default_map, collect_settings

    if config is not None:
        os.environ[CONFIG] = config  # for the runs that this one starts, too
    context.obj = collect_settings(context.command)
    context.default_map = build_default_map(context.obj)


def build_app() -> Any:
    """The group of all commands."""
    names = dict.fromkeys(path.split()[0] for path in COMMANDS)
    makers = {
        name: partial(build_subgroup if name in GROUPS else build_command, name) for name in names
    }
    summaries = {name: GROUPS.get(name) or COMMANDS[name].summary for name in names}
    group = build_group("attn", makers, summaries, help=HELP, epilog=EXAMPLES, callback=attn)
    group.context_settings = {"help_option_names": ["-h", "--help"]}
    group.params += typer.main.get_install_completion_arguments()
    return group


def build_group(
    name: str,
    makers: Mapping[str, Callable[[], Any]],
    summaries: Mapping[str, str],
    **about: Any,
) -> Any:
    """Build a group whose commands are built on lookup."""
    info = TyperInfo(
        typer.Typer(rich_markup_mode=None), name=name, cls=Group, no_args_is_help=True, **about
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
    function = import_function(path)
    question = getattr(function, "asked", None)
    if question is not None:  # else it reads its options, and writes, by itself
        from attncli.cli.command_execution import make_command

        function = make_command(question, COMMANDS[path])
    module = sys.modules[function.__module__]
    settings = {"ignore_unknown_options": True} if hasattr(module, "PASSES_OPTIONS_ON") else None
    info = CommandInfo(
        path.split()[-1],
        cls=Command,
        callback=function,
        epilog=module.EXAMPLES,
        context_settings=settings,
    )
    command: Any = typer.main.get_command_from_info(
        info, pretty_exceptions_short=True, rich_markup_mode=None
    )
    for option in command.params:
        if option.name == "fail_if":
            option.help = option.help.replace(GATE, COMMANDS[path].gate)
    return command


register_app_builder(build_app)
