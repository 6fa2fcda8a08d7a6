"""Convert declared options to typer's parameters: the one module that knows both.

Texts and plain numbers of the command line are read without pydantic: typer reads every value with
it, even of an option that is not given, and importing it takes as long as computing the first table.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import typer
from typer import Context

from attncli.declare.option_declarations import (
    Argument,
    Option,
    build_dataclasses_of_option_groups,
    collect_option_rules,
    list_option_flags,
    list_parameters_of_flattened_groups,
)

NUMBER_METAVARS = {int: "N", int | None: "N", float: "X", float | None: "X"}


def flatten_option_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command take whole groups: typer sees a group's fields, the command gets the filled dataclass."""

    @functools.wraps(command)
    def run_with_option_groups(**values: Any) -> int:
        return command(**build_dataclasses_of_option_groups(command, values))

    return set_function_signature(
        run_with_option_groups, list_parameters_of_flattened_groups(command)
    )


def set_function_signature(
    command: Callable[..., int],
    declared: Iterable[inspect.Parameter],
    python_only: Iterable[inspect.Parameter] = (),
) -> Callable[..., int]:
    """The command under the signature that typer reads.

    `declared` are its parameters by name, `options` those of them that are options, `rules` when each applies,
    and each keyword of Python alone, which another option sets here.
    """
    found: Any = command
    found.declared = {each.name: each for each in declared}
    parameters = [to_typer_parameter(each) for each in found.declared.values()]
    found.__signature__ = inspect.Signature(parameters)
    found.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    found.rules = collect_option_rules((*found.declared.values(), *python_only))
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
    converted = [to_typer_option(one, parameter.name, kind) for one in annotations]
    return parameter.replace(annotation=Annotated[kind, *converted])


def to_typer_option(annotations: Any, name: str, kind: Any) -> Any:
    """An option with its metavar; that of a number is N or X where it declares none."""
    if isinstance(annotations, Option):
        return typer.Option(
            *list_option_flags(annotations, name, kind),
            help=annotations.help,
            metavar=annotations.metavar or NUMBER_METAVARS.get(kind),
            autocompletion=lambda incomplete: complete_option_value(annotations, incomplete),
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


def complete_option_value(option: Option, incomplete: str) -> list[str]:
    """By the option's own function, or the choices in its metavar, such as `cpu|cuda[:N]|mps`."""
    from attncli.options.value_completion import make_metavar_choice_completer

    found = option.complete or make_metavar_choice_completer(option.metavar)
    return found(incomplete) if found is not None else []


PLAIN_NUMBER = {
    int: re.compile("0|-?[1-9][0-9]{0,17}"),
    float: re.compile("-?[0-9]{1,15}([.][0-9]{1,15})?"),
}
"""Numbers that Python and pydantic read alike."""


@dataclass(frozen=True)
class ValueReader:
    """Reads texts and plain numbers, and leaves all else to typer's own reader."""

    of_typer: Callable[[], Any]

    def coerce(self, value: Any, param: Any, ctx: Context) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        kind = param.type_descriptor.annotation
        if kind == list[str] and isinstance(value, list | tuple):
            if all(isinstance(each, str) for each in value):
                return list(value)
        elif isinstance(value, str):
            plain = PLAIN_NUMBER.get(kind)
            if kind is str or (plain is not None and plain.fullmatch(value)):
                return kind(value)
        return self.of_typer().coerce(value, param=param, ctx=ctx)
