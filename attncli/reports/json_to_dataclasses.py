"""Convert plain JSON values to frozen records, each checked against the type that its field
declares.

A field without a default is required; unknown keys are ignored, so that later versions may add
some. Types are examined once: a report has as many rows as a model has numbers.
"""

import dataclasses
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from functools import cache, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from attncli.errors import InputError
from attncli.records import JsonObject

WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    bytes: "bytes",
}

Reader = Callable[[Any], Any]
"""Returns a JSON value as some type, or raises `SchemaMismatch`."""


class SchemaMismatch(Exception):
    """A value that does not have its declared type; the containers around it add its path."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__(before, after)
        self.before, self.path, self.after = before, "", after

    def add_path_prefix(self, step: str) -> "SchemaMismatch":
        self.path = step + self.path
        return self


def convert_json_value(kind: Any, value: object, where: str) -> Any:
    """The value as this type; `where` is its path in the document, for the sentence that refuses it."""
    try:
        return make_json_reader(kind)(value)
    except SchemaMismatch as misfit:
        raise InputError(f"{misfit.before}{where}{misfit.path}{misfit.after}") from None


@cache
def make_json_reader(kind: Any) -> Reader:
    """What reads values of this type."""
    origin = get_origin(kind)
    if kind is Any:
        return lambda value: value
    if origin in (Union, types.UnionType):
        return make_scalar_reader(get_args(kind))
    if origin is tuple:
        return partial(read_tuple, make_json_reader(get_args(kind)[0]))
    if origin is Mapping:
        return partial(read_mapping, make_json_reader(get_args(kind)[1]))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return make_dataclass_reader(kind)
    return make_scalar_reader((kind,))


def make_scalar_reader(kinds: tuple[type, ...]) -> Reader:
    """Of scalars and null: true is no number, a whole number is a float too, 1e999 is none."""
    plain = frozenset(kinds) - {float}
    numbers = frozenset({int, float} if float in kinds else ())
    words = " or ".join(WORDS[kind] for kind in kinds if kind is not type(None))

    def read_scalar(value: Any) -> Any:
        kind = type(value)
        if kind in plain or (kind in numbers and abs(value) <= sys.float_info.max):
            return value
        raise make_schema_mismatch(words, value)

    return read_scalar


def read_tuple(read_item: Reader, value: Any) -> tuple[Any, ...]:
    if type(value) is not list:
        raise make_schema_mismatch("a list", value)
    found = []
    try:
        for item in value:
            found.append(read_item(item))
    except SchemaMismatch as misfit:
        raise misfit.add_path_prefix(f"[{len(found)}]") from None
    return tuple(found)


def read_mapping(read_item: Reader, value: Any) -> JsonObject:
    if type(value) is not dict:
        raise make_schema_mismatch("an object", value)
    found = {}
    try:
        for name, item in value.items():
            found[name] = read_item(item)
    except SchemaMismatch as misfit:
        raise misfit.add_path_prefix(f".{name}") from None
    return found


def make_dataclass_reader(kind: type) -> Reader:
    """Of a dataclass, from the keys that its fields know."""
    hints, fields = get_type_hints(kind), dataclasses.fields(kind)
    readers = [(field.name, make_json_reader(hints[field.name])) for field in fields]
    required = [field.name for field in fields if field.default is field.default_factory is MISSING]

    def read_dataclass(value: Any) -> Any:
        if type(value) is not dict:
            raise make_schema_mismatch("an object", value)
        for name in required:
            if name not in value:
                raise SchemaMismatch(f"the key '{name}' is missing in ", "")
        found = {}
        try:
            for name, read_member in readers:
                if name in value:
                    found[name] = read_member(value[name])
        except SchemaMismatch as misfit:
            raise misfit.add_path_prefix(f".{name}") from None
        return kind(**found)

    return read_dataclass


def make_schema_mismatch(expected: str, value: object) -> SchemaMismatch:
    shown = repr(value)
    return SchemaMismatch("", f" must be {expected}, not {shown if len(shown) < 40 else 'this'}")


def make_type_mismatch_error(where: str, expected: str, value: object) -> InputError:
    return InputError(f"{where}{make_schema_mismatch(expected, value).after}")
