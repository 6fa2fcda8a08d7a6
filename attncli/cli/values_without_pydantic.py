"""Texts and plain numbers of the command line, read without pydantic.

typer reads every value with pydantic, even of an option that is not given, and importing it takes
as long as computing the first table.
"""

import functools
import re
from collections.abc import Iterable
from typing import Any

PLAIN_NUMBER = {
    int: re.compile("0|-?[1-9][0-9]{0,17}"),
    float: re.compile("-?[0-9]{1,15}([.][0-9]{1,15})?"),
}
"""Numbers that Python and pydantic read alike."""


class ValueReader:
    """Reads texts and plain numbers, and leaves all else to typer."""

    def __init__(self, parameter: Any) -> None:
        self.of_typer = parameter.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        kind = param.type_descriptor.annotation
        if kind == list[str] and isinstance(value, list | tuple) and all(map(is_text, value)):
            return list(value)
        if is_text(value) and (kind is str or is_plain_number(kind, value)):
            return kind(value)
        return self.of_typer().coerce(value, param=param, ctx=ctx)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_plain_number(kind: Any, text: str) -> bool:
    return kind in PLAIN_NUMBER and PLAIN_NUMBER[kind].fullmatch(text) is not None


def read_plain_values(parameters: Iterable[Any]) -> None:
    """Let parameters of typer read plain values, on each one: typer makes them of its own classes."""
    for one in parameters:
        one.get_runtime_param = functools.partial(lambda reader: reader, ValueReader(one))
