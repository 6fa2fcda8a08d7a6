"""Command lines, read by the root command.

`app` registers its builder here, so that modules that `app` imports can read the command line too.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attncli.declare.command_table import COMMANDS
from attncli.declare.option_declarations import OptionValues

if TYPE_CHECKING:
    from typer import Context
    from typer.core import TyperCommand, TyperGroup

CommandPath = tuple[str, ...]
"""The words that reach a command: `("generate", "network")`."""

PARSER_WORDS = {
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
}

ENROLLED: list[Callable[[], Any]] = []


def register_app_builder(build: Callable[[], Any]) -> None:
    ENROLLED[:] = [build]


def root_command() -> Any:
    """The group of all commands."""
    return ENROLLED[0]()


def list_command_words() -> list[CommandPath]:
    """The words of every command, without importing any."""
    return [tuple(path.split()) for path in COMMANDS]


def find_command_by_words(command: Any, path: CommandPath) -> Any:
    """The command that these words reach, below a group."""
    for word in path:
        command = command.commands[word]
    return command


def iterate_commands(
    command: "TyperCommand | TyperGroup", path: CommandPath
) -> Iterator[tuple[CommandPath, Any]]:
    """Every command with the words that reach it."""
    members = getattr(command, "commands", None)
    if members is None:
        yield path, command
        return
    for name, member in members.items():
        yield from iterate_commands(member, (*path, name))


def parse_command(words: Sequence[str]) -> Any:
    """Parse a line up to its command and return the context, with parameters by name; nothing is
    run or refused.

    A line that cannot be parsed has the parameters before the mistake; the command that runs it
    reports the error.
    """
    return make_command_context(root_command(), words, {}, resilient_parsing=True)


def make_command_context(
    command: Any, words: Sequence[str], defaults: OptionValues, **how: Any
) -> Any:
    """The context of the last command that the words reach, with the defaults that are set."""
    context = command.make_context("attn", list(words), default_map=dict(defaults), **how)
    while members := getattr(command, "commands", {}):
        name, *rest = [*context._protected_args, *context.args] or [""]
        if name not in members:
            if name and not context.resilient_parsing:
                command.resolve_command(context, [name, *rest])  # raises, with the nearest name
            break
        command = members[name]
        context = command.make_context(name, rest, parent=context, **how)
    return context


def command_words_of_context(context: Any) -> CommandPath:
    """`("generate", "network")`"""
    words: CommandPath = ()
    while context.parent is not None:
        words = (context.info_name, *words)
        context = context.parent
    return words


def is_typed_on_command_line(context: "Context", name: str) -> bool:
    """Whether the parameter was typed on the command line itself."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
