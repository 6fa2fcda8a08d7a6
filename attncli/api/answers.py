"""A report as Python and notebooks meet it: gates, tables, files and pictures within reach of a dot."""

import dataclasses
import io
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli import gates
from attncli.errors import UsageError
from attncli.records import Report
from attncli.render import FORMATS, endings
from attncli.render._cells import grids
from attncli.render.page.tables import plain as plain_text
from attncli.render.page.tables import table_of
from attncli.writing.whole_files import require_writable, write_whole

if TYPE_CHECKING:
    import pandas
    from rich.console import RenderableType

WIDTH = 120
"""Columns of the text form, as wide as a reader's own terminal mostly is."""


@dataclass(frozen=True, slots=True)
class Answer(Report):
    """A report that a function of `attncli` returns, with what one does next."""

    def check(self, *conditions: str) -> "Answer":
        """The report with these gates decided, as `--fail-if` takes them: `report.check("mean(sink) > 0.5").passed`."""
        parsed = [gates.parse(text) for text in conditions]
        return answer(self.with_verdicts([*self.verdicts, *gates.decide(self, parsed)]))

    @property
    def passed(self) -> bool:
        """Whether no gate failed."""
        return gates.exit_code(self) == 0

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat mapping for each number, as the rows of the JSON report."""
        return [row.flat() for row in self.rows]

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a data frame; needs pandas."""
        try:
            import pandas
        except ImportError:
            raise UsageError(
                "to_pandas() needs pandas: pip install pandas, or take to_dicts()."
            ) from None
        return pandas.DataFrame(self.to_dicts())

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the report, whole or not at all, in the format that the file's ending names."""
        target = Path(path)
        text = self.text(format_of(target))
        require_writable(target)
        write_whole(target, lambda file: file.write_bytes(text.encode(errors="backslashreplace")))
        return target

    def text(self, format: str = "table", width: int = WIDTH) -> str:
        """The report in one of the formats of `attn list formats`."""
        made = FORMATS[format](self)
        return plain(made, width) if not isinstance(made, str) else made

    def plot(self, path: str | PathLike[str], size: tuple[float, float] | None = None) -> Path:
        """Draw the figure that `--plot` draws; `size`: width and height in inches, else what its panels need."""
        from attncli.render.plots.targets import require_figure

        target = Path(path)
        require_figure(target, str(target))
        from attncli.render.plots.figure import figure

        write_whole(target, lambda file: figure(self, file, size))
        return target

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text().rstrip("\n")

    def __rich__(self) -> "RenderableType":
        shown: RenderableType = FORMATS["table"](self)
        return shown

    def _repr_html_(self) -> str:
        """For notebooks: the answer, the picture where matplotlib is there, the tables."""
        return "\n".join(html_parts(self))


def answer(report: Report) -> Answer:
    """The same report with its methods."""
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return Answer(**fields)


def format_of(path: Path) -> str:
    """The format that a file's ending means."""
    found = endings().get(path.suffix.lower())
    if found is None:
        raise UsageError(f"cannot save as {path}: end it in {', '.join(endings())}.")
    return found


def plain(renderable: "RenderableType", width: int) -> str:
    """A rich renderable as text without colours."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(  # also in a notebook, where rich would rather show than write
        file=buffer, width=width, color_system=None, highlight=False, force_jupyter=False
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))


def html_parts(report: Report) -> Iterator[str]:
    """Everything that comes from outside is escaped: a token may well be called <script>."""
    yield f"<p><strong>{plain_text(report.headline)}</strong></p>"
    yield from pictures(report)
    yield from map(table_of, grids(report))
    for verdict in report.verdicts:
        mark = "✗" if verdict.failed else "✓"
        yield f"<p>{mark} <code>{plain_text(verdict.condition)}</code> {plain_text(verdict.text)}</p>"
    for warning in report.warnings:
        yield f"<p><em>{plain_text(warning)}</em></p>"


def pictures(report: Report) -> Iterator[str]:
    """The figure that `--plot` draws, inside the page."""
    from importlib.util import find_spec

    from attncli.render.plots.chart import charts

    if find_spec("matplotlib") is None or not (report.pictures or charts(report)):
        return
    import tempfile

    from attncli.render.plots.figure import figure

    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        path = Path(scratch) / "figure.svg"
        figure(report, path)
        drawn = path.read_text(encoding="utf-8")
    yield drawn[drawn.index("<svg") :]
