"""The views of a report as HTML tables, and the HTML helpers of the whole page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape

from attncli.records import Facts
from attncli.render._table_cells import TableGrid
from attncli.sanitize import escape_invisible_characters

MOST_CELLS = 6_000
"""Of a table that is written out; the rest of a longer one is among all numbers at the page's end."""


def escape_text(text: object) -> str:
    """Escape text from any source, so that it is inert in HTML."""
    return escape(escape_invisible_characters(str(text)))


def html_tag(name: str, inside: str = "", **attributes: object) -> str:
    """Build a tag. `class_` becomes class; None omits an attribute."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{attribute_text}>{inside}</{name}>"


def limit_table_rows(grid: TableGrid) -> tuple[TableGrid, int]:
    """The first lines of a grid, and the number of lines left out."""
    most = max(1, MOST_CELLS // max(1, len(grid.header)))
    return replace(grid, lines=grid.lines[:most]), max(0, len(grid.lines) - most)


def format_table(grid: TableGrid) -> str:
    shortened, left_out = limit_table_rows(grid)
    head = html_tag(
        "tr", "".join(html_tag("th", escape_text(name), scope="col") for name in shortened.header)
    )
    lines = "".join(format_html_table_row(line, shortened.words) for line in shortened.lines)
    caption = html_tag("caption", escape_text(shortened.title))
    if left_out:
        more = f"{left_out:,} more lines are left out here: all numbers are at the end of the page."
        lines += html_tag(
            "tr", html_tag("td", escape_text(more), colspan=len(shortened.header), class_="said")
        )
    return html_tag("table", caption + html_tag("thead", head) + html_tag("tbody", lines))


def format_html_table_row(cells: Sequence[str], words: bool) -> str:
    first = html_tag("th", escape_text(cells[0]), scope="row")
    kind = "said" if words else None
    return html_tag(
        "tr", first + "".join(html_tag("td", escape_text(cell), class_=kind) for cell in cells[1:])
    )


def format_nested_metadata(facts: Facts) -> str:
    """Nested facts as nested lists of terms."""
    return html_tag("dl", "".join(format_definition_list(facts)))


def format_definition_list(facts: Facts) -> Iterator[str]:
    for name, value in facts.items():
        yield html_tag("dt", escape_text(name))
        yield html_tag("dd", format_metadata_value(value))


def format_metadata_value(value: object) -> str:
    if isinstance(value, Mapping):
        return format_nested_metadata(value)
    if isinstance(value, list | tuple):
        if any(isinstance(each, Mapping) for each in value):
            return "".join(map(format_metadata_value, value))
        return escape_text(", ".join(map(str, value)))
    return escape_text("–" if value is None else value)
