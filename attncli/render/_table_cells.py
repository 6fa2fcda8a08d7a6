"""Format numbers and views for people: shared by the table and markdown formats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from attncli.maths.number_format import (
    count_decimal_places,
    format_number,
    format_with_confidence_interval,
    format_with_fixed_decimal_places,
    format_with_standard_deviation,
)
from attncli.records import (
    HIGH,
    LOW,
    UNCERTAINTY,
    Definition,
    Report,
    Row,
    Scalar,
    View,
    format_token_position,
)
from attncli.sanitize import sanitize_value

NOTHING = "–"

BRIEF = 3
"""Digits in a grid of heads."""

SHADES = " ░▒▓█"
"""Of numbers from 0 to 1, each for a fifth."""


@dataclass(frozen=True, slots=True)
class TableGrid:
    """A view as text: a header and lines of cells."""

    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    words: bool = False
    """Whether the last column is text that may wrap."""
    is_heat: bool = False
    """Whether cells are letters and shades, which a figure of the report draws too."""


def sanitize_sentences(report: Report) -> Report:
    """The headline, the warnings and the verdicts of a report, made visible; nothing else."""
    texts = Report(
        report.study,
        report.headline,
        (),
        {},
        {},
        warnings=report.warnings,
        verdicts=report.verdicts,
    )
    return sanitize_value(texts)


def sanitize_tables(report: Report) -> Report:
    """What tables and sentences show of a report, made visible: most rows are in no table."""
    rows = tuple(
        row for row in report.rows if any(is_row_in_view(row, view) for view in report.views)
    )
    tables = sanitize_value((rows, report.metrics, report.views, report.findings))
    rows, metrics, views, findings = tables
    return replace(
        sanitize_sentences(report), rows=rows, metrics=metrics, views=views, findings=findings
    )


def build_table_grids(report: Report) -> Iterator[TableGrid]:
    """Every view of the report, empty ones left out."""
    for view in report.views:
        rows = [row for row in report.rows if is_row_in_view(row, view)]
        if view.findings and report.findings:
            lines = tuple((finding.about, finding.text) for finding in report.findings)
            yield TableGrid(view.title, (view.down, view.findings), lines, words=True)
        elif rows:
            yield build_table_grid(view, rows, report.metrics)


def is_row_in_view(row: Row, view: View) -> bool:
    return (
        row.metric in view.metrics
        and row.axis(view.down) is not None
        and all(does_row_have_axis_value(row, axis, value) for axis, value in view.where.items())
    )


def does_row_have_axis_value(row: Row, axis: str, value: Scalar) -> bool:
    """Whether the row has this coordinate; an empty value selects rows without the axis."""
    own = row.axis(axis)
    return value == ("" if own is None else own)


def build_table_grid(
    view: View, rows: Sequence[Row], metrics: Mapping[str, Definition]
) -> TableGrid:
    across = view.across
    downs = dict.fromkeys(row.axis(view.down) for row in rows)
    acrosses = dict.fromkeys(row.axis(across) for row in rows) if across else view.metrics
    ordered = rows
    if view.last_layer_only:  # the highest layer comes last and so wins its cell
        ordered = sorted(rows, key=lambda row: -1 if row.layer is None else row.layer)
    cells = {
        (row.axis(view.down), row.axis(across) if across else row.metric): row for row in ordered
    }
    show: Callable[[Row | None], str] = (
        format_cell_with_three_digits if view.across == "head" else format_cell
    )
    show = partial(format_role_and_shade, key=view.heat) if view.heat else show
    show = partial(format_token_pair, keys=view.pair) if view.pair else show
    names = {row.axis(view.down): str(row.keys.get(view.names, "")) for row in rows}
    lines = [
        [
            f"{down} {names[down]}".rstrip(),
            *(show(cells.get((down, column))) for column in acrosses),
        ]
        for down in downs
    ]
    columns = acrosses if view.across else [format_heading(str(name), metrics) for name in acrosses]
    header = (view.down, *map(str, columns))
    return TableGrid(view.title, header, tuple(map(tuple, lines)), is_heat=bool(view.heat))


def format_heading(metric: str, metrics: Mapping[str, Definition]) -> str:
    """The heading of a metric's column: its name, unless that is not specific enough."""
    known = metrics.get(metric)
    return (known.heading if known else "") or metric


def format_cell(row: Row | None) -> str:
    if row is None or row.value is None:
        return NOTHING
    if row.spread is not None:
        return format_with_standard_deviation(row.value, row.spread)
    low, high = row.keys.get(LOW), row.keys.get(HIGH)
    if isinstance(low, float) and isinstance(high, float) and low < high:
        return format_with_confidence_interval(row.value, low, high)
    shown, by = format_number(row.value), row.keys.get(UNCERTAINTY)
    return (
        format_with_standard_deviation(row.value, by)
        if isinstance(by, float) and is_uncertain_in_shown_digits(shown, by)
        else shown
    )


def format_cell_with_three_digits(row: Row | None) -> str:
    """Three digits, which are enough in a grid of heads."""
    if row is None or row.value is None or row.spread is not None or abs(row.value) >= 100.0:
        return format_cell(row)
    return format_with_fixed_decimal_places(row.value, count_decimal_places(row.value, BRIEF))


def format_token_pair(row: Row | None, keys: Sequence[str]) -> str:
    """`fox@3 ← quick@1 0.93 (0.11)`: positions replace missing token names, and spaces are made
    visible."""
    if row is None or row.value is None:
        return NOTHING
    even = row.keys.get("uniform")
    uniform_text = f" ({format_two_decimals_or_digits(even)})" if isinstance(even, float) else ""
    words = " ← ".join(format_token_position(row, key) for key in keys)
    return f"{words} {format_two_decimals_or_digits(row.value)}{uniform_text}"


def format_two_decimals_or_digits(value: float) -> str:
    """Two decimals, or two digits of smaller values."""
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0.0 else f"{value:.2g}"


def is_uncertain_in_shown_digits(shown: str, by: float) -> bool:
    """Whether an uncertainty reaches the last digit that is shown."""
    mantissa, _, exponent = shown.replace(",", "").partition("e")
    digits = len(mantissa.partition(".")[2])
    return by >= 0.5 * 10.0 ** (int(exponent or 0) - digits)


def format_role_and_shade(row: Row | None, key: str) -> str:
    """The letter under the key, and the number from 0 to 1 as a shade; the letter alone where there
    is none.

    Two letters, as in `I?`, leave no space for a shade.
    """
    if row is None:
        return NOTHING
    share = max(0.0, min(row.value or 0.0, 1.0))
    shade = SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]
    mark = str(row.keys.get(key, ""))
    return mark if len(mark) > 1 else mark + shade
