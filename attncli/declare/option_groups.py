"""Option groups: a dataclass of annotated options that several commands share."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_type_hints

NO_OPTIONS = ("how", "return")
"""Parameters of a question that are not options: its context and its return value."""


def flatten_parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The function's parameters with every group replaced by its fields, annotations whole."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in NO_OPTIONS:
            continue
        kind = hints[parameter.name]
        if dataclasses.is_dataclass(kind):
            yield from list_group_parameters(kind)
        else:
            yield parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY)


def list_group_parameters(group: Any) -> Iterator[inspect.Parameter]:
    """A group's fields, each as a keyword."""
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=hints[field.name],
        )


def fill_option_groups(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Flat values as the function takes them: those of a group as the filled dataclass."""
    rest = dict(values)
    found = {}
    for name, kind in get_type_hints(function).items():
        if name not in NO_OPTIONS and isinstance(kind, type) and dataclasses.is_dataclass(kind):
            members = {field.name: rest.pop(field.name) for field in dataclasses.fields(kind)}
            found[name] = kind(**members)
    return rest | found
