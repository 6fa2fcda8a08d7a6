from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from attncli.records import Report, Verdict
from attncli.render import renderer
from attncli.render._table_cells import TableGrid, build_table_grids, sanitize_tables


@renderer(endings=(".txt",), tells_verdicts=True, warnings_apart=True)
def table(report: Report) -> RenderableType:
    """For people: the answer first, then the tables, then the verdicts, then the warnings."""
    report = sanitize_tables(report)
    parts: list[RenderableType] = [Text(report.headline, style="bold")]
    for grid in build_table_grids(report):
        parts += [Text(), Text(grid.title, style="italic"), WrappedTable(grid)]
    if report.verdicts:
        parts += [Text(), *map(format_gate_verdict, report.verdicts)]
    if report.warnings:
        parts += [Text(), *map(format_warning, report.warnings)]
    return Group(*parts)


def format_gate_verdict(verdict: Verdict) -> Text:
    mark = ("FAIL", "bold red") if verdict.failed else ("pass", "green")
    return Text.assemble(mark, f"  {verdict.condition}", (f"  ({verdict.text})", "dim"))


def format_warning(warning: str) -> Text:
    return Text.assemble(("warning:", "yellow"), f" {warning}")


@dataclass(frozen=True)
class WrappedTable:
    """A grid that never loses a column: where the terminal is too narrow it becomes several tables."""

    grid: TableGrid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unlimited = options.update(max_width=10_000)
        start, end = 1, len(self.grid.header)
        while start < end:
            stop, part = end, self.build_table_of_columns(start, end)
            while (
                stop > start + 1
                and Measurement.get(console, unlimited, part).maximum > options.max_width
            ):
                stop -= 1
                part = self.build_table_of_columns(start, stop)
            if start > 1:
                yield Text()
            yield part
            start = stop

    def build_table_of_columns(self, start: int, stop: int) -> Table:
        """The first column and columns start … stop - 1; names are text, not markup."""
        result = Table(box=None, header_style="bold")
        for index, name in enumerate(self.grid.header):
            if index == 0 or start <= index < stop:
                words = self.grid.words and index > 0
                justify: JustifyMethod = "left" if words else "right"
                result.add_column(Text(name), justify=justify, no_wrap=not words)
        for line in self.grid.lines:
            result.add_row(*map(Text, (line[0], *line[start:stop])))
        return result
