"""Convert declared options to typer's parameters: the one module that knows both."""

import functools
import inspect
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import typer

from attncli.declare.option_groups import fill_option_groups, flatten_parameters
from attncli.declare.options import Argument, Option
from attncli.declare.settle import collect_option_rules


def flatten_option_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command take whole groups: typer sees a group's fields, the command gets the filled dataclass."""

    @functools.wraps(command)
    def run_flattened(**values: Any) -> int:
        return command(**fill_option_groups(command, values))

    return set_function_signature(run_flattened, flatten_parameters(command))


def set_function_signature(
    command: Callable[..., int], declared: Iterable[inspect.Parameter]
) -> Callable[..., int]:
    """The command under the signature that typer reads.

    `declared` are its parameters by name, `options` those of them that are options, `rules` when each applies.
    """
    found: Any = command
    found.declared = {each.name: each for each in declared}
    parameters = [to_typer_parameter(each) for each in found.declared.values()]
    found.__signature__ = inspect.Signature(parameters)
    found.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    found.rules = collect_option_rules(found.declared.values())
    found.options = {
        name: one
        for name, each in found.declared.items()
        for one in get_args(each.annotation)[1:]
        if isinstance(one, Option)
    }
    return command


def to_typer_parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    """Convert a declared parameter to one with typer's annotations."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter
    kind, *annotations = get_args(parameter.annotation)
    kind = str if kind is Any else kind  # Python takes arrays there, too
    words = [to_typer_option(one, number_metavar(kind)) for one in annotations]
    return parameter.replace(annotation=Annotated[kind, *words])


def number_metavar(kind: Any) -> str | None:
    """Metavar of a number that declares none; None for any other type."""
    kinds = {each for each in get_args(kind) or (kind,) if each is not NoneType}
    return {frozenset({int}): "N", frozenset({float}): "X"}.get(frozenset(kinds))


def to_typer_option(annotations: Any, number: str | None) -> Any:
    if isinstance(annotations, Option):
        return typer.Option(
            *annotations.flags,
            help=annotations.help,
            metavar=annotations.metavar or number,
            autocompletion=make_completion(annotations),
            rich_help_panel=annotations.panel,
            show_default=False,
        )
    if isinstance(annotations, Argument):
        return typer.Argument(
            metavar=annotations.metavar,
            help=annotations.help,
            autocompletion=annotations.complete,
            show_default=False,
        )
    return annotations


def make_completion(option: Option) -> Callable[[str], list[str]]:
    """By the option's own function, or the choices in its metavar, such as `cpu|cuda[:N]|mps`."""

    def complete_option(incomplete: str) -> list[str]:
        from attncli.options.completion import complete_choices

        found = option.complete or complete_choices(option.metavar)
        return found(incomplete) if found is not None else []

    return complete_option
