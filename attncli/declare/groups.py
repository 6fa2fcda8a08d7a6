"""Option groups: a dataclass of annotated options that several commands share."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_type_hints

NO_OPTIONS = ("how", "return")
"""Parameters of a question that are not options: its context and its return value."""


def flat_parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The function's parameters with every group replaced by its fields, annotations whole."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in NO_OPTIONS:
            continue
        kind = hints[parameter.name]
        if is_group(kind):
            yield from group_parameters(kind)
        else:
            yield parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY)


def group_parameters(group: type) -> Iterator[inspect.Parameter]:
    """A group's fields, each as a keyword."""
    yield from map(field_parameter, group_fields(group))


def gathered(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Flat values as the function takes them: those of a group as the filled dataclass."""
    rest = dict(values)
    found = {}
    for name, kind in get_type_hints(function).items():
        if is_group(kind) and name not in NO_OPTIONS:
            members = {field.name: rest.pop(field.name) for field, _ in group_fields(kind)}
            found[name] = kind(**members)
    return rest | found


def is_group(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


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
