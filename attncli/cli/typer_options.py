"""From declared options to what typer takes: the one place that knows both."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typer

from attncli.options.declared import Argument, Option
from attncli.options.groups import flat_parameters, gathered


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command take whole groups: typer sees a group's fields, the command gets the filled dataclass."""
    parameters = [for_typer(parameter) for parameter in flat_parameters(command)]

    @functools.wraps(command)
    def flat(**values: Any) -> int:
        return command(**gathered(command, values))

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def for_typer(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same parameter with typer's own words beside its type."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter
    kind, *said = get_args(parameter.annotation)
    return parameter.replace(annotation=Annotated[kind, *map(in_typers_words, said)])


def in_typers_words(said: Any) -> Any:
    if isinstance(said, Option):
        return typer.Option(
            *said.flags,
            help=said.help,
            metavar=said.metavar,
            autocompletion=said.complete,
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
