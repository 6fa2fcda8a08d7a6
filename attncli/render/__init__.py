"""Formats, one per file: a function of the report that returns text or a rich renderable and writes nothing.

To add one, add a file `attncli/render/NAME.py` with a function `NAME(report)` under `@renderer(…)`, which says all that
others need to know of it. Nothing else is edited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from attncli.registry import Registry

FORMATS = Registry("format", "attncli.render")

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """Properties of a format that are known without rendering."""

    endings: tuple[str, ...]
    """File extensions of the format."""
    tells_verdicts: bool
    """Whether a person reads the verdicts in it, and need not read them twice."""
    holds_rows: bool
    """Whether it contains all numbers; otherwise its extension alone does not select it, lest they
    be lost."""
    shows_maps: bool
    """Whether maps are drawn in it, so that the study takes some along."""
    warnings_apart: bool
    """Whether a command prints the warnings on stderr and leaves them out of it."""


def renderer(
    *,
    endings: tuple[str, ...] = (),
    tells_verdicts: bool = False,
    holds_rows: bool = True,
    shows_maps: bool = False,
    warnings_apart: bool = False,
) -> Callable[[Function], Function]:
    """Attach a format's `FormatSpec` to its function, which is returned unchanged."""

    def attach(function: Function) -> Function:
        function.manner = FormatSpec(  # type: ignore[attr-defined]
            endings, tells_verdicts, holds_rows, shows_maps, warnings_apart
        )
        return function

    return attach


def format_spec(name: str) -> FormatSpec:
    found: FormatSpec = FORMATS[name].manner  # type: ignore[attr-defined]
    return found


def format_endings(holding_rows: bool = True) -> dict[str, str]:
    """Endings of files, and the format that each of them means."""
    return {
        ending: name
        for name in FORMATS.names()
        for ending in format_spec(name).endings
        if format_spec(name).holds_rows == holding_rows
    }
