"""From declared options to what typer takes: the one place that knows both."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args, get_origin

import typer

from attncli.options.completion import choices
from attncli.options.declared import Argument, Option
from attncli.options.groups import flat_parameters, gathered


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command take whole groups: typer sees a group's fields, the command gets the filled dataclass."""

    @functools.wraps(command)
    def flat(**values: Any) -> int:
        return command(**gathered(command, values))

    return with_options(flat, flat_parameters(command))


def with_options(
    command: Callable[..., int], declared: Iterable[inspect.Parameter]
) -> Callable[..., int]:
    """The command under the signature that typer reads; `usual` are the options that its short help shows."""
    parameters = [for_typer(parameter) for parameter in declared]
    found: Any = command
    found.__signature__ = inspect.Signature([parameter for parameter, _ in parameters])
    found.__annotations__ = {parameter.name: parameter.annotation for parameter, _ in parameters}
    found.usual = frozenset(parameter.name for parameter, usual in parameters if usual)
    return command


def for_typer(parameter: inspect.Parameter) -> tuple[inspect.Parameter, bool]:
    """The same parameter with typer's own words beside its type, and whether it is a usual one."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter, False
    kind, *said = get_args(parameter.annotation)
    usual = any(isinstance(one, Option) and one.usual for one in said)
    return parameter.replace(annotation=Annotated[kind, *map(in_typers_words, said)]), usual


def in_typers_words(said: Any) -> Any:
    if isinstance(said, Option):
        return typer.Option(
            *said.flags,
            help=said.help,
            metavar=said.metavar,
            autocompletion=said.complete or choices(said.metavar),
            rich_help_panel=said.panel,
            show_default=False,
        )
    if isinstance(said, Argument):
        return typer.Argument(
            metavar=said.metavar,
            help=said.help,
            autocompletion=said.complete,
            show_default=False,
        )
    return said
