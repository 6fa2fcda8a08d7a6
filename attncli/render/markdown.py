import re
from collections.abc import Iterator

from attncli.records import Report
from attncli.render import renderer
from attncli.render._cells import Grid, grids
from attncli.sanitize import all_visible

SPECIAL = re.compile(r"[\\`*<>&|~$\[\]]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown, or HTML within it, would take for its own; an underscore within a word is one."""


@renderer(endings=(".md",), tells_verdicts=True, warnings_apart=True)
def markdown(report: Report) -> str:
    """The headline, the tables, the verdicts and the warnings as GitHub-flavoured Markdown."""
    return "\n".join(lines(all_visible(report))) + "\n"


def lines(report: Report) -> Iterator[str]:
    yield f"**{escaped(report.headline)}**"
    for grid in grids(report):
        yield ""
        yield f"### {escaped(grid.title)}"
        yield ""
        yield from table(grid)
    if report.verdicts:
        yield ""
        for verdict in report.verdicts:
            yield f"- {'❌' if verdict.failed else '✅'} {code(verdict.condition)} — {escaped(verdict.text)}"
    if report.warnings:
        yield ""
        yield from (f"- ⚠️ {escaped(warning)}" for warning in report.warnings)


def table(grid: Grid) -> Iterator[str]:
    yield row(grid.header)
    yield "| --- |" + (" :--- |" if grid.words else " ---: |") * (len(grid.header) - 1)
    yield from map(row, grid.lines)


def row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    """The text as text: an entity for what opens HTML, a backslash before the rest."""
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return SPECIAL.sub(lambda found: entities.get(found[0], f"\\{found[0]}"), text)


def code(text: str) -> str:
    """A code span, fenced by more backticks than the text has anywhere in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    blank = " " if longest else ""
    return f"{'`' * (longest + 1)}{blank}{text}{blank}{'`' * (longest + 1)}"
