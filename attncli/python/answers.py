"""A report as Python and notebooks meet it: gates, tables, files and pictures within reach of a dot."""

import base64
import dataclasses
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, overload

from attncli import gates
from attncli.analysis.report_selection import select_rows
from attncli.declare.values import as_number, operator_index, single
from attncli.errors import UsageError
from attncli.io.atomic_files import require_writable, write_atomically
from attncli.io.remote_files import is_address
from attncli.options.shared import LARGEST_FIGURE, SMALLEST_FIGURE
from attncli.python.baselines import build_baseline
from attncli.records import Report
from attncli.render import FORMATS, format_endings
from attncli.render._cells import build_grids
from attncli.render._columns import list_columns
from attncli.render.page.tables import escape_text as plain_text
from attncli.render.page.tables import format_table
from attncli.render.plots.targets import FIGURES
from attncli.reports import read_report
from attncli.reports.reading import STDIN

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.console import RenderableType

NARROWEST = 20
WIDTH = 120
"""Columns of the text form, about as wide as most terminals."""


@dataclass(frozen=True, slots=True, eq=False)  # as a Report is equal to another, and hashed
class Answer(Report):
    """A report that a function of `attncli` returns, with what one does next."""

    @classmethod
    def of(cls, report: Report) -> "Answer":
        """The same report with these methods."""
        return cls(**{each.name: getattr(report, each.name) for each in dataclasses.fields(report)})

    def check(
        self,
        *conditions: str,
        baseline: "str | PathLike[str] | Report | None" = None,
        fail_on: str | Iterable[str] = (),
        family_wise: SupportsFloat | None = None,
    ) -> "Answer":
        """The report with these gates decided, as `--fail-if` takes them: `report.check("mean(sink) > 0.5").passed`.

        `baseline`: an earlier report, or its file, and `fail_on` how far numbers may have moved from it, as `attn check` has
        them: `report.check(baseline="main.json", fail_on="sink:p.05")`. `family_wise`: how often noise alone may fail any of
        several.
        """
        for text in conditions:
            if not isinstance(text, str):
                raise UsageError(
                    f"`conditions` must be texts, each by itself, such as 'mean(sink) > 0.5', not {text!r:.80}."
                )
        parsed = [gates.parse_condition(text) for text in dict.fromkeys(conditions)]
        against, held = build_baseline(baseline, fail_on, family_wise)
        decided = against.verdicts(self, parsed, held or against.read())
        again = {verdict.condition for verdict in decided}
        before = [verdict for verdict in self.verdicts if verdict.condition not in again]
        return to_answer(self.with_verdicts([*before, *decided]))

    def select(
        self,
        metrics: str | Iterable[str] = (),
        sort: str | None = None,
        top: SupportsIndex | None = None,
    ) -> "Answer":
        """Some of the report's metrics, and its heads in order: `report.select(sort="induction", top=10)`.

        `sort`: a metric of heads, or METRIC:rising; `top`: only the first N heads by it. The tables are those of what is left.
        """
        named = [metrics] if isinstance(metrics, str) else list(metrics)
        if not all(isinstance(name, str) for name in named):
            raise UsageError(f"`metrics` must be texts, not {metrics!r:.80}.")
        if not isinstance(sort, str | None):
            raise UsageError(f"`sort` must be a text, not {sort!r:.80}.")
        count = None if top is None else operator_index(top)
        if count is None and top is not None:
            raise UsageError(f"`top` must be a whole number, not {top!r:.80}.")
        return to_answer(select_rows(self, named, sort, count))

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
        frame = pandas.DataFrame(self.to_dicts(), columns=list_columns(self))
        return frame.astype(
            {name: kind for name in frame if (kind := column_type(name, frame[name]))}
        )

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the report, whole or not at all, in the format that the file's ending names."""
        target = require_path(path)
        text = self.text(format_for_path(target))
        require_writable(target)
        write_atomically(
            target, lambda file: file.write_bytes(text.encode(errors="backslashreplace"))
        )
        return target

    def text(self, format: str = "table", width: int = WIDTH) -> str:
        """The report in one of the formats of `attn list formats`."""
        if not isinstance(format, str):
            raise UsageError(
                f"`format` must be a text, one of {', '.join(FORMATS.names())}, not {format!r:.80}."
            )
        columns = operator_index(width)
        if columns is None or isinstance(width, bool) or columns < NARROWEST:
            raise UsageError(
                f"`width` must be a whole number of columns, {NARROWEST} or more, not {width!r:.80}."
            )
        made = FORMATS[format](self)
        return render_plain(made, width) if not isinstance(made, str) else made

    @overload
    def plot(self, path: None = None, size: tuple[float, float] | None = None) -> "Figure": ...
    @overload
    def plot(self, path: str | PathLike[str], size: tuple[float, float] | None = None) -> Path: ...
    def plot(
        self, path: str | PathLike[str] | None = None, size: tuple[float, float] | None = None
    ) -> "Path | Figure":
        """The figure that `--plot` draws: written to `path`, else as matplotlib's own `Figure`.

        `size`: width and height in inches, else what its panels need.
        """
        from attncli.render.plots.figure import NOTHING, build_figure, has_figure, save_figure
        from attncli.render.plots.targets import require_drawing, require_figure

        target = None if path is None else require_path(path)
        if target is None:
            require_drawing("plot()")
        else:
            require_figure(target, str(target))
        inches = None if size is None else require_figure_size(size)
        if not has_figure(self):
            raise UsageError(
                f"{NOTHING}: ask for it with `pictures=True`, or for a number at several layers or sizes."
            )
        if target is None:
            made: Figure = build_figure(self, inches)
            return made
        write_atomically(target, lambda file: save_figure(self, file, inches))
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
        return "\n".join(render_html(self))


def to_answer(report: Report) -> Answer:
    return Answer.of(report)


def require_path(path: Any) -> Path:
    if not isinstance(path, str | PathLike):
        raise UsageError(f"`path` must be a path, not {path!r:.80}.")
    if "\0" in fspath(path):
        raise UsageError(
            f"`path` holds a NUL character, which no file has in its name: {path!r:.80}."
        )
    return Path(path)


def require_figure_size(size: Any) -> tuple[float, float]:
    """Width and height that a figure may have."""
    sides = [as_number(single(side)) for side in size] if isinstance(size, list | tuple) else []
    found = [side for side in sides if side and SMALLEST_FIGURE <= side <= LARGEST_FIGURE]
    if len(sides) != 2 or len(found) != 2:
        raise UsageError(
            f"`size` must be width and height in inches, {SMALLEST_FIGURE:g} to {LARGEST_FIGURE:g}, such as (3.4, 2.6), not "
            f"{size!r:.80}."
        )
    return found[0], found[1]


WHOLE, NUMBERS = ("layer", "head", "n"), ("value", "spread")
"""Columns of whole numbers and of others, also where no row has one."""


def column_type(name: str, values: "pandas.Series[Any]") -> str:
    """Nullable pandas dtype of a column, with None as a missing number; empty for columns without
    numbers."""
    kinds = {type(value) for value in values if not is_missing(value)}
    if name in WHOLE or (name not in NUMBERS and kinds == {int}):
        return "Int64"
    return "float64" if name in NUMBERS or (kinds and kinds <= {int, float}) else ""


def is_missing(value: Any) -> bool:
    return value is None or value != value


def format_for_path(path: Path) -> str:
    """The format that a file's ending means."""
    if path.suffix.lower() in FIGURES:
        raise UsageError(
            f"cannot save as {path}, which is a figure: draw it with plot({str(path)!r})."
        )
    found = format_endings().get(path.suffix.lower())
    if found is None:
        raise UsageError(f"cannot save as {path}: end it in {', '.join(format_endings())}.")
    return found


def render_plain(renderable: "RenderableType", width: int) -> str:
    """A rich renderable as text without colours."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(  # also in a notebook, where rich would rather show than write
        file=buffer, width=width, color_system=None, highlight=False, force_jupyter=False
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))


def render_html(report: Report) -> Iterator[str]:
    """Render the report as HTML; all external text is escaped: a token may be called <script>."""
    yield f"<p><strong>{plain_text(report.headline)}</strong></p>"
    drawn = list(render_pictures(report))
    yield from drawn
    yield from (format_table(grid) for grid in build_grids(report) if not (drawn and grid.is_heat))
    for verdict in report.verdicts:
        mark = "✗" if verdict.failed else "✓"
        yield f"<p>{mark} <code>{plain_text(verdict.condition)}</code> {plain_text(verdict.text)}</p>"
    for warning in report.warnings:
        yield f"<p><em>{plain_text(warning)}</em></p>"


def render_pictures(report: Report) -> Iterator[str]:
    """Render the figure of `plot` for the page; with very many heads as a bitmap, which is smaller."""
    from importlib.util import find_spec

    from attncli.render.plots.figure import has_figure

    if find_spec("matplotlib") is None or not has_figure(report):
        return
    drawn = figure_bytes(report, ".svg", DOTS)
    if len(drawn) <= MOST_DRAWN:
        text = drawn.decode()
        yield text[text.index("<svg") :].replace("<svg ", f'<svg style="{FITTED}" ', 1)
        return
    dots = figure_bytes(report, ".png", FEW_DOTS)
    if len(dots) <= MOST_DRAWN:
        code = base64.b64encode(dots).decode()
        yield f'<img alt="" style="{FITTED}" src="data:image/png;base64,{code}">'


MOST_DRAWN = 2**19
"""Of a figure in a notebook, which keeps it."""
DOTS, FEW_DOTS = 100, 60
"""Of an inch: of maps within a drawing, and of a whole figure where it is shown in dots."""
FITTED = "max-width: 100%; height: auto"


def figure_bytes(report: Report, ending: str, dots: int) -> bytes:
    import tempfile

    from attncli.render.plots.figure import save_figure

    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        path = Path(scratch) / f"figure{ending}"
        save_figure(report, path, dots=dots)
        return path.read_bytes()


def read(path: str | PathLike[str]) -> Answer:
    """The report in a JSON file that `report.save` or `attn … -o FILE.json` has written."""
    name = path if isinstance(path, str) and is_address(path) else os.fspath(require_path(path))
    if name == STDIN:
        raise UsageError("`path` must name a file: '-' for stdin is the command line's alone.")
    return to_answer(read_report(name))
