"""Convert plain JSON values to frozen records, each checked against the type that its field
declares.

A field without a default is required; unknown keys are ignored, so that later versions may add
some.
"""

import dataclasses
import sys
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from attncli.errors import InputError

WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def validate_value(kind: Any, value: Any, where: str) -> Any:
    """The value as this type; `where` is its path in the document, for the sentence that refuses it."""
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return validate_union(get_args(kind), value, where)
    if origin is tuple:
        return validate_tuple(get_args(kind)[0], value, where)
    if origin is Mapping:
        return validate_mapping(get_args(kind)[1], value, where)
    if dataclasses.is_dataclass(kind):
        return validate_record(kind, value, where)  # type: ignore[arg-type]
    if not is_scalar_of(kind, value):
        raise type_error(where, WORDS[kind], value)
    return value


def is_scalar_of(kind: type, value: Any) -> bool:
    """Whether a JSON value is this scalar: true is no number, a whole number is a float too, 1e999
    is none."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return isinstance(value, kind)


def validate_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """A union of scalars and null."""
    if value is None and type(None) in kinds:
        return None
    scalars = [kind for kind in kinds if kind is not type(None)]
    if not any(is_scalar_of(kind, value) for kind in scalars):
        raise type_error(where, " or ".join(WORDS[kind] for kind in scalars), value)
    return value


def validate_tuple(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise type_error(where, "a list", value)
    return tuple(
        validate_value(kind, item, f"{where}[{index}]") for index, item in enumerate(value)
    )


def validate_mapping(kind: Any, value: Any, where: str) -> dict[str, Any]:
    return {
        name: validate_value(kind, item, f"{where}.{name}")
        for name, item in require_entries(value, where)
    }


def validate_record(kind: type, value: Any, where: str) -> Any:
    """A dataclass from the keys that its fields know."""
    given = dict(require_entries(value, where))
    hints = get_type_hints(kind)
    known = dataclasses.fields(kind)
    for field in known:
        optional = field.default is not dataclasses.MISSING
        optional |= field.default_factory is not dataclasses.MISSING
        if field.name not in given and not optional:
            raise InputError(f"the key '{field.name}' is missing in {where}")
    members = {
        field.name: validate_value(hints[field.name], given[field.name], f"{where}.{field.name}")
        for field in known
        if field.name in given
    }
    return kind(**members)


def require_entries(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise type_error(where, "an object", value)
    return value.items()


def type_error(where: str, expected: str, value: Any) -> InputError:
    shown = repr(value)
    return InputError(f"{where} must be {expected}, not {shown if len(shown) < 40 else 'this'}")
