"""Which rows a gate speaks about: a metric and selectors.

selector   := axis=value | axis=first:last | value    (a bare number is a layer, a bare word a variant)
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from attncli.errors import UsageError, make_unknown_name_error
from attncli.records import Report, Row, Scalar

SUBJECT = (
    r"\s*+(?:(?P<aggregate>min|max|mean|any|all)\s*+\((?=.*\))\s*+)?"
    r"(?P<metric>\w++)\s*+(?:\[(?P<selectors>[^\]]*+)\]\s*+)?(?:(?P<close>\))\s*+)?"
)
"""An aggregate of a metric at some coordinates, as a regular expression that never goes back over blanks."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows of a metric at some coordinates, and their text for messages."""

    option_name: ClassVar[str] = "`show`"
    """The option that the text belongs to; without a condition it selects what a table shows."""
    text: str
    metric: str
    selectors: tuple[tuple[str, str], ...]


def parse_selection_and_aggregate(text: str) -> tuple[RowSelection, str]:
    """Parse a selection with its aggregate, without a condition; the default aggregate is the mean."""
    match = re.fullmatch(SUBJECT, text)
    if match is None or bool(match["aggregate"]) != bool(match["close"]):
        raise UsageError(f"cannot read '{text}': write it like 'max(sink[layer=-1])'.")
    chosen = RowSelection(
        text.strip(),
        match["metric"],
        parse_axis_selectors(text, match["selectors"], RowSelection.option_name),
    )
    return chosen, match["aggregate"] or "mean"


def parse_axis_selectors(
    text: str, inside: str | None, called: str = "the gate"
) -> tuple[tuple[str, str], ...]:
    """Parse the selectors between the brackets of `text`."""
    parts = (part.strip() for part in (inside or "").split(","))
    return tuple(parse_axis_selector(f"{called} '{text}'", part) for part in parts if part)


def parse_axis_selector(where: str, part: str) -> tuple[str, str]:
    """Parse `axis=value`, or a bare value: a whole number is a layer, a word a variant."""
    axis, equals, value = (piece.strip() for piece in part.partition("="))
    if equals and axis and value:
        return axis, value
    if equals:
        raise UsageError(f"cannot read '{part}' in {where}: write axis=value.")
    return ("layer" if re.fullmatch(r"-?\d+|-?\d*:-?\d*", axis) else "variant"), axis


def select_gated_rows(report: Report, selection: RowSelection) -> list[Row]:
    """The rows of the metric at the coordinates that every selector names, in any order."""
    rows = [row for row in report.rows if row.metric == selection.metric]
    if not rows:
        raise make_unknown_name_error(
            f"metric in {selection.option_name}", selection.metric, {r.metric for r in report.rows}
        )
    chosen = rows
    for axis, value in selection.selectors:
        present = [row for row in rows if row.axis(axis) is not None]
        ends = find_last_axis_value_of_rows(present, axis)
        found = {id(row) for row in present if is_row_selected(row, axis, value, ends[id(row)])}
        if not found:
            raise UsageError(
                f"{selection.option_name} '{selection.text}' matches nothing at {axis}={value}: {describe_available_axis_values(rows, axis)}."
            )
        chosen = [row for row in chosen if id(row) in found]
    if not chosen:
        raise UsageError(
            f"{selection.option_name} '{selection.text}' matches nothing: no row has all of these."
        )
    return chosen


def find_last_axis_value_of_rows(rows: Sequence[Row], axis: str) -> dict[int, float]:
    """For each row (by identity) where its axis ends: among the rows that differ from it along the axis alone."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(row_keys_without_axis(row, axis), []).append(row)
    return {
        id(row): max(convert_axis_value_to_float(member.axis(axis)) for member in members)
        for members in groups.values()
        for row in members
    }


def row_keys_without_axis(row: Row, axis: str) -> tuple[object, ...]:
    return tuple(sorted(item for item in row.coordinates.items() if item[0] != axis))


def is_row_selected(row: Row, axis: str, requested: str, end: float) -> bool:
    """Whether the row's coordinate is the wanted value or lies in the wanted range, counted from the end if negative."""
    value = row.axis(axis)
    if isinstance(value, str):
        return value == requested
    assert value is not None
    first, colon, last = requested.partition(":")
    try:
        low = parse_axis_range_end(first, axis, end, -math.inf if colon else math.nan)
        high = parse_axis_range_end(last, axis, end, math.inf) if colon else low
    except ValueError:
        return False
    return low <= value <= high


def convert_axis_value_to_float(value: Scalar | None) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def parse_axis_range_end(text: str, axis: str, end: float, empty: float) -> float:
    """One end of a range; negative layers and heads count from the end."""
    if not text.strip():
        return empty
    value = float(text)
    return end + 1.0 + value if value < 0 and axis in ("layer", "head") else value


def describe_available_axis_values(rows: Sequence[Row], axis: str) -> str:
    values = list(dict.fromkeys(row.axis(axis) for row in rows if row.axis(axis) is not None))
    if not values:
        axes = [name for name in ("variant", "layer", "head") if rows[0].axis(name) is not None]
        return f"its rows have {', '.join([*axes, *rows[0].keys]) or 'no axes'}"
    whole = [value for value in values if isinstance(value, int)]
    if len(whole) == len(values) > 6:
        return f"there are {min(whole)} … {max(whole)}"
    return f"there are {', '.join(map(str, values))}"


def describe_missing_row_value(row: Row) -> str:
    """What a verdict says where there is no number."""
    return f"no number to test: {format_row_axis_values(row)} {row.note}"


def format_row_axis_values(row: Row) -> str:
    """`SAN, layer 12:`"""
    return f"{row.place}:" if row.place else "value"
