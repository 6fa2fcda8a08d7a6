"""The views of a report as HTML tables, and the pieces of HTML that all of the page is made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from attncli.render._cells import Grid
from attncli.sanitize import visible

MOST_CELLS = 6_000
"""Of a table that is written out; the rest of a longer one is among all numbers at the page's end."""


def plain(text: Any) -> str:
    """Text from anywhere, inert."""
    return escape(visible(str(text)))


def tag(name: str, inside: str = "", **attributes: Any) -> str:
    """`class_` is written class; None leaves an attribute out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{plain(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{inside}</{name}>"


def short(grid: Grid) -> tuple[Grid, int]:
    """The lines that there is room for, and how many are left out."""
    most = max(1, MOST_CELLS // max(1, len(grid.header)))
    return replace(grid, lines=grid.lines[:most]), max(0, len(grid.lines) - most)


def table_of(grid: Grid) -> str:
    kept, left_out = short(grid)
    head = tag("tr", "".join(tag("th", plain(name), scope="col") for name in kept.header))
    lines = "".join(line_of(line, kept.words) for line in kept.lines)
    caption = tag("caption", plain(kept.title))
    if left_out:
        more = f"{left_out:,} more lines are left out here: all numbers are at the end of the page."
        lines += tag("tr", tag("td", plain(more), colspan=len(kept.header), class_="said"))
    return tag("table", caption + tag("thead", head) + tag("tbody", lines))


def line_of(cells: Sequence[str], words: bool) -> str:
    first = tag("th", plain(cells[0]), scope="row")
    kind = "said" if words else None
    return tag("tr", first + "".join(tag("td", plain(cell), class_=kind) for cell in cells[1:]))


def described(facts: Mapping[str, Any]) -> str:
    """Nested facts as nested lists of terms."""
    return tag("dl", "".join(facts_of(facts)))


def facts_of(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        yield tag("dt", plain(name))
        yield tag("dd", value_of(value))


def value_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return described(value)
    if isinstance(value, list | tuple):
        if any(isinstance(each, Mapping) for each in value):
            return "".join(map(value_of, value))
        return plain(", ".join(map(str, value)))
    return plain("–" if value is None else value)
