"""Formats, one per file: a function of the report that returns text or a rich renderable and writes nothing.

To add one, add a file `attncli/render/NAME.py` with a function `NAME(report)` under `@renderer(…)`, which says all that
others need to know of it. Nothing else is edited.

    >>> from attncli.records import Report, Row
    >>> sink = Row("sink", 0.7, "1", layer=0, head=1)
    >>> report = Report(study="inspect-model", headline="", rows=(sink,), metrics={}, source={})
    >>> from attncli.render import FORMATS
    >>> FORMATS["csv"](report).splitlines()[1]
    'sink,,0,1,0.7,,1,1,'
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attncli.registry import EntryDeclaration, SpecifiedRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSpec(EntryDeclaration):
    """Properties of a format that are known without rendering."""

    endings: tuple[str, ...] = ()
    """File extensions of the format."""
    tells_verdicts: bool = False
    """Whether a person reads the verdicts in it, and need not read them twice."""
    holds_rows: bool = True
    """Whether it contains all numbers; otherwise its extension alone does not select it, lest they
    be lost."""
    shows_maps: bool = False
    """Whether maps are drawn in it, so that the study takes some along."""
    warnings_apart: bool = False
    """Whether a command prints the warnings on stderr and leaves them out of it."""


renderer = FormatSpec
"""As a decorator: `@renderer(endings=(".csv",))`."""


class FormatRegistry(SpecifiedRegistry[Callable[..., Any], FormatSpec]):
    """Formats of reports."""

    specification = FormatSpec


FORMATS = FormatRegistry("format", "attncli.render")


def map_file_extensions_to_formats(holding_rows: bool = True) -> dict[str, str]:
    """Endings of files, and the format that each of them means."""
    return {
        ending: name
        for name in FORMATS.names()
        for ending in FORMATS.declaration_of_entry(name).endings
        if FORMATS.declaration_of_entry(name).holds_rows == holding_rows
    }
