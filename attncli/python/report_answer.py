"""A report as Python and notebooks meet it: gates, tables, files and pictures within reach of a dot."""

import dataclasses
import io
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, overload

from attncli import gates
from attncli.declare.option_value_conversion import (
    to_float_or_none,
    to_python_number,
    to_whole_number_or_none,
)
from attncli.errors import UsageError
from attncli.io.atomic_files import require_writable_path, write_atomically
from attncli.io.remote_files import is_remote_url
from attncli.options.run_and_output import LARGEST_FIGURE, SMALLEST_FIGURE
from attncli.records import JsonObject, Report
from attncli.render import FORMATS, map_file_extensions_to_formats

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
        from attncli.python.baselines import build_baseline_options

        for text in conditions:
            if not isinstance(text, str):
                raise UsageError(
                    f"`conditions` must be texts, each by itself, such as 'mean(sink) > 0.5', not {text!r:.80}."
                )
        parsed = [gates.parse_condition(text) for text in dict.fromkeys(conditions)]
        against, baseline_report = build_baseline_options(baseline, fail_on, family_wise)
        decided = against.decide_report_and_baseline_gates(
            self, parsed, baseline_report or against.read_baseline_report()
        )
        again = {verdict.condition for verdict in decided}
        before = [verdict for verdict in self.verdicts if verdict.condition not in again]
        return report_to_answer(self.with_verdicts([*before, *decided]))

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
        count = None if top is None else to_whole_number_or_none(top)
        if count is None and top is not None:
            raise UsageError(f"`top` must be a whole number, not {top!r:.80}.")
        from attncli.analysis.report_row_selection import select_report_rows

        return report_to_answer(select_report_rows(self, named, sort, count))

    @property
    def passed(self) -> bool:
        """Whether no gate failed."""
        return gates.exit_code_of_report(self) == 0

    def to_dicts(self) -> list[JsonObject]:
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
        from attncli.render._table_columns import list_report_columns

        frame = pandas.DataFrame(self.to_dicts(), columns=list_report_columns(self))
        return frame.astype(
            {name: kind for name in frame if (kind := choose_pandas_column_type(name, frame[name]))}
        )

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the report, whole or not at all, in the format that the file's ending names."""
        target = convert_to_path(path)
        text = self.text(choose_report_format_by_extension(target))
        require_writable_path(target)
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
        columns = to_whole_number_or_none(width)
        if columns is None or isinstance(width, bool) or columns < NARROWEST:
            raise UsageError(
                f"`width` must be a whole number of columns, {NARROWEST} or more, not {width!r:.80}."
            )
        made = FORMATS[format](self)
        return render_without_colours(made, width) if not isinstance(made, str) else made

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
        from attncli.render.plots.figure_files import require_figure_extension, require_matplotlib
        from attncli.render.plots.matplotlib_figure import (
            NOTHING,
            build_figure,
            has_figure,
            save_figure,
        )

        target = None if path is None else convert_to_path(path)
        if target is None:
            require_matplotlib("plot()")
        else:
            require_figure_extension(target, str(target))
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
        from attncli.python.notebook_html import render_html

        return "\n".join(render_html(self))


def report_to_answer(report: Report) -> Answer:
    return Answer.of(report)


def convert_to_path(path: object) -> Path:
    if not isinstance(path, str | PathLike):
        raise UsageError(f"`path` must be a path, not {path!r:.80}.")
    if "\0" in fspath(path):
        raise UsageError(
            f"`path` holds a NUL character, which no file has in its name: {path!r:.80}."
        )
    return Path(path)


def require_figure_size(size: object) -> tuple[float, float]:
    """Width and height that a figure may have."""
    sides = (
        [to_float_or_none(to_python_number(side)) for side in size]
        if isinstance(size, list | tuple)
        else []
    )
    found = [side for side in sides if side and SMALLEST_FIGURE <= side <= LARGEST_FIGURE]
    if len(sides) != 2 or len(found) != 2:
        raise UsageError(
            f"`size` must be width and height in inches, {SMALLEST_FIGURE:g} to {LARGEST_FIGURE:g}, such as (3.4, 2.6), not "
            f"{size!r:.80}."
        )
    return found[0], found[1]


WHOLE, NUMBERS = ("layer", "head", "n"), ("value", "spread")
"""Columns of whole numbers and of others, also where no row has one."""


def choose_pandas_column_type(name: str, values: "pandas.Series[Any]") -> str:
    """Nullable pandas dtype of a column, with None as a missing number; empty for columns without
    numbers."""
    kinds = {type(value) for value in values if not (value is None or value != value)}
    if name in WHOLE or (name not in NUMBERS and kinds == {int}):
        return "Int64"
    return "float64" if name in NUMBERS or (kinds and kinds <= {int, float}) else ""


def choose_report_format_by_extension(path: Path) -> str:
    """The format that a file's ending means."""
    from attncli.render.plots.figure_files import FIGURES

    if path.suffix.lower() in FIGURES:
        raise UsageError(
            f"cannot save as {path}, which is a figure: draw it with plot({str(path)!r})."
        )
    found = map_file_extensions_to_formats().get(path.suffix.lower())
    if found is None:
        raise UsageError(
            f"cannot save as {path}: end it in {', '.join(map_file_extensions_to_formats())}."
        )
    return found


def render_without_colours(renderable: "RenderableType", width: int) -> str:
    """A rich renderable as text without colours."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(  # also in a notebook, where rich would rather show than write
        file=buffer, width=width, color_system=None, highlight=False, force_jupyter=False
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))


def read(path: str | PathLike[str]) -> Answer:
    """The report in a JSON file that `report.save` or `attn … -o FILE.json` has written."""
    from attncli.reports.json_report_reading import STDIN, read_report

    name = path if isinstance(path, str) and is_remote_url(path) else fspath(convert_to_path(path))
    if name == STDIN:
        raise UsageError("`path` must name a file: '-' for stdin is the command line's alone.")
    return report_to_answer(read_report(name))
