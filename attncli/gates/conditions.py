"""Conditions on the numbers of one report: `--fail-if`; those that can match none of them are refused before the work."""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from attncli.errors import FAILED_GATE, UsageError, format_count, make_unknown_name_error
from attncli.gates.row_selection import (
    SUBJECT,
    RowSelection,
    describe_missing_row_value,
    format_row_axis_values,
    parse_axis_selectors,
    select_gated_rows,
)
from attncli.maths.number_format import format_short_number
from attncli.maths.significance_tests import mean
from attncli.records import Report, Row, Scalar, Verdict

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "mean": mean,
}
GRAMMAR = re.compile(SUBJECT + r"(?P<op><=|>=|==|!=|<|>)\s*+(?P<number>\S++)\s*+")
EXAMPLE = "log10_residual[variant=SAN, layer=-1] < -3"
OWN = ("variant", "layer", "head")
"""Axes that are fields of a row."""


@dataclass(frozen=True, slots=True)
class Condition(RowSelection):
    """A parsed condition."""

    option_name: ClassVar[str] = "the gate"

    aggregate: str
    op: str
    number: float

    def is_satisfied_by(self, value: float) -> bool:
        return OPERATORS[self.op](value, self.number)


def parse_condition(text: str) -> Condition:
    match = GRAMMAR.fullmatch(text)
    if match is None or bool(match["aggregate"]) != bool(match["close"]):
        raise UsageError(f"cannot read the gate '{text}': write it like '{EXAMPLE}'.")
    return Condition(
        text=text.strip(),
        aggregate=match["aggregate"] or "any",
        metric=match["metric"],
        selectors=parse_axis_selectors(text, match["selectors"]),
        op=match["op"],
        number=parse_gate_threshold(text, match["number"]),
    )


def parse_gate_threshold(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"cannot read the gate '{text}': '{number}' is not a number.")
    return value


def refuse_gates_that_match_no_row(
    conditions: Iterable[Condition], axes: Mapping[str, Sequence[Scalar]]
) -> None:
    """Selectors on these axes that match none of the values that there will be; of other axes nothing is known yet."""
    for condition in conditions:
        for axis, value in condition.selectors:
            if axis in axes:
                rows = tuple(
                    make_placeholder_report_row(condition.metric, axis, place)
                    for place in axes[axis]
                )
                select_gated_rows(
                    Report("", "", rows, {}, {}), replace(condition, selectors=((axis, value),))
                )


def make_placeholder_report_row(metric: str, axis: str, place: Scalar) -> Row:
    """Make a row with just these coordinates."""
    own = {axis: place} if axis in OWN else {}
    keys = {} if axis in OWN else {axis: place}
    return Row(metric, 0.0, "1", keys=keys, **own)  # type: ignore[arg-type]


def refuse_gates_on_unmeasured_metrics(
    conditions: Iterable[Condition], measured: Iterable[str], others: Iterable[str] = ()
) -> None:
    """Metrics that this run does not measure; `others` are those that --metric would add."""
    measured, others = list(measured), list(others)
    for condition in conditions:
        if condition.metric in measured:
            continue
        if condition.metric in others:
            raise UsageError(
                f"the gate '{condition.text}' needs {condition.metric}, which is not measured here: "
                f"add `metric={condition.metric!r}`."
            )
        raise make_unknown_name_error("metric in the gate", condition.metric, [*measured, *others])


def decide_report_gates(report: Report, conditions: Iterable[Condition]) -> list[Verdict]:
    """One verdict per condition; a condition that matches nothing is a usage error."""
    return [
        decide_report_gate(condition, select_gated_rows(report, condition))
        for condition in conditions
    ]


def decide_report_gate(condition: Condition, rows: Sequence[Row]) -> Verdict:
    """A gate fails where a number is lost or none applies, because nothing was shown to be well."""
    numbers = [row for row in rows if row.value is not None]
    gone = [row for row in rows if row.is_missing]
    if gone or not numbers:
        return Verdict(condition.text, True, describe_missing_row_value((gone or list(rows))[0]))
    values = [row.value for row in numbers if row.value is not None]
    if condition.aggregate in AGGREGATES:
        value = AGGREGATES[condition.aggregate](values)
        text = f"{condition.aggregate} of {format_count(len(values), 'value')}: {format_short_number(value, 6)}"
        return Verdict(condition.text, condition.is_satisfied_by(value), text)
    holding = [
        row for row in numbers if row.value is not None and condition.is_satisfied_by(row.value)
    ]
    failed = len(holding) == len(numbers) if condition.aggregate == "all" else bool(holding)
    return Verdict(
        condition.text, failed, describe_rows_of_gate_verdict(condition, numbers, holding)
    )


def describe_rows_of_gate_verdict(
    condition: Condition, rows: Sequence[Row], holding: Sequence[Row]
) -> str:
    """For how many rows the condition holds, and the one nearest to or farthest past the threshold; of one row its value."""
    reverse = condition.op in (">", ">=")
    extreme = sorted(holding or rows, key=lambda row: row.value or 0.0, reverse=reverse)[0]
    found = f"{format_row_axis_values(extreme)} {format_short_number(extreme.value or 0.0, 6)}"
    if len(rows) == 1:
        return found
    count = f"holds for {len(holding) or 'none'} of {format_count(len(rows), 'value')}"
    return f"{count}{':' if holding else '; closest:'} {found}"


def exit_code_of_report(report: Report) -> int:
    """The exit code, by the same decision as the printed verdicts."""
    return FAILED_GATE if any(verdict.failed for verdict in report.verdicts) else 0


def worst_exit_code(codes: Iterable[int]) -> int:
    """One code for several runs: an error that stopped a run outweighs a failed gate."""
    return max(codes, key=lambda code: (code not in (0, FAILED_GATE), code), default=0)
