from collections.abc import Iterator

from attncli.records import Report
from attncli.render._cells import Grid, grids


def markdown(report: Report) -> str:
    """The headline, the tables and the verdicts as GitHub-flavoured Markdown."""
    return "\n".join(lines(report)) + "\n"


def lines(report: Report) -> Iterator[str]:
    yield f"**{report.headline}**"
    for grid in grids(report):
        yield ""
        yield f"### {grid.title}"
        yield ""
        yield from table(grid)
    if report.verdicts:
        yield ""
        for verdict in report.verdicts:
            yield f"- {'❌' if verdict.failed else '✅'} `{verdict.condition}` — {verdict.text}"


def table(grid: Grid) -> Iterator[str]:
    yield row(grid.header)
    yield "| --- |" + (" :--- |" if grid.words else " ---: |") * (len(grid.header) - 1)
    yield from map(row, grid.lines)


def row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
