"""Texts and plain numbers of the command line, read without pydantic.

typer reads every value with pydantic, even of an option that is not given, and importing it takes
as long as computing the first table.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PLAIN_NUMBER = {
    int: re.compile("0|-?[1-9][0-9]{0,17}"),
    float: re.compile("-?[0-9]{1,15}([.][0-9]{1,15})?"),
}
"""Numbers that Python and pydantic read alike."""


@dataclass(frozen=True)
class ValueReader:
    """Reads texts and plain numbers, and leaves all else to typer's own reader."""

    of_typer: Callable[[], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
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
