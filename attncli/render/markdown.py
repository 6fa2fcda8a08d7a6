import re
from collections.abc import Iterator

from attncli.records import Report
from attncli.render import renderer
from attncli.render._table_cells import TableGrid, build_table_grids, sanitize_tables

SPECIAL = re.compile(r"[\\`*<>&|~$\[\]]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown or HTML; an underscore within a word has none."""


@renderer(endings=(".md",), tells_verdicts=True, warnings_apart=True)
def markdown(report: Report) -> str:
    """The headline, the tables, the verdicts and the warnings as GitHub-flavoured Markdown."""
    return "\n".join(format_markdown_lines(sanitize_tables(report))) + "\n"


def format_markdown_lines(report: Report) -> Iterator[str]:
    # Asterisks next to a space are no markup, and four of them are a rule.
    yield f"**{escape_text(report.headline.strip() or '–')}**"
    for grid in build_table_grids(report):
        yield ""
        yield f"### {escape_text(grid.title)}"
        yield ""
        yield from format_table(grid)
    if report.verdicts:
        yield ""
        for verdict in report.verdicts:
            yield f"- {'❌' if verdict.failed else '✅'} {format_code_span(verdict.condition)} — {escape_text(verdict.text)}"
    if report.warnings:
        yield ""
        yield from (f"- ⚠️ {escape_text(warning)}" for warning in report.warnings)


def format_table(grid: TableGrid) -> Iterator[str]:
    yield format_markdown_row(grid.header)
    yield "| --- |" + (" :--- |" if grid.words else " ---: |") * (len(grid.header) - 1)
    yield from map(format_markdown_row, grid.lines)


def format_markdown_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(map(escape_text, cells)) + " |"


def escape_text(text: str) -> str:
    """Escape the text: an entity for what opens HTML, a backslash before the rest."""
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return SPECIAL.sub(lambda found: entities.get(found[0], f"\\{found[0]}"), text)


def format_code_span(text: str) -> str:
    """A code span, fenced by more backticks than the text has anywhere in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    blank = " " if longest else ""
    return f"{'`' * (longest + 1)}{blank}{text}{blank}{'`' * (longest + 1)}"
