"""Option groups: a dataclass of annotated options that several commands share."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command take whole groups: typer sees a group's fields, the command gets the filled dataclass."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += map(field_parameter, group_fields(kind))
        else:
            parameters.append(parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def flat(**values: Any) -> int:
        for name, group in groups.items():
            members = {field.name: values.pop(field.name) for field, _ in group_fields(group)}
            values[name] = group(**members)
        return command(**values)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def group_fields(group: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = get_type_hints(group, include_extras=True)
    return [(field, hints[field.name]) for field in dataclasses.fields(group)]


def field_parameter(field_and_hint: tuple[dataclasses.Field[Any], Any]) -> inspect.Parameter:
    field, hint = field_and_hint
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
    )
