"""Gates: conditions that fail a build. Report × conditions → verdicts → exit code; nothing here prints.

condition  := [aggregate(] metric [ '[' selector, … ']' ] [)] op number
aggregate  := min | max | mean | any | all           (any, if not said: one matching row is enough to fail)
selector   := axis=value | axis=first:last | value    (a bare number is a layer, a bare word a variant)
op         := <  <=  >  >=  ==  !=

log10_residual[variant=SAN+skip, layer=-1] < -3       layers count from the end when negative
mean(order[SAN, layer=5:12]) > 2.5                     both ends included
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from attncli.errors import UsageError, unknown_name
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
    "mean": lambda values: math.fsum(values) / len(values),
}
GRAMMAR = re.compile(
    r"\s*(?:(?P<aggregate>min|max|mean|any|all)\s*\((?=.*\)))?"
    r"\s*(?P<metric>\w+)\s*(?:\[(?P<selectors>[^\]]*)\])?\s*(?P<close>\))?"
    r"\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<number>\S+)\s*"
)
EXAMPLE = "log10_residual[variant=SAN, layer=-1] < -3"


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition."""

    text: str
    aggregate: str
    metric: str
    selectors: tuple[tuple[str, str], ...]
    op: str
    number: float

    def holds(self, value: float) -> bool:
        return OPERATORS[self.op](value, self.number)


def parse(text: str) -> Condition:
    match = GRAMMAR.fullmatch(text)
    if match is None or bool(match["aggregate"]) != bool(match["close"]):
        raise UsageError(f"cannot read the gate '{text}': write it like '{EXAMPLE}'.")
    return Condition(
        text=text.strip(),
        aggregate=match["aggregate"] or "any",
        metric=match["metric"],
        selectors=tuple(selector(text, part) for part in split(match["selectors"])),
        op=match["op"],
        number=threshold(text, match["number"]),
    )


def split(selectors: str | None) -> list[str]:
    return [part.strip() for part in (selectors or "").split(",") if part.strip()]


def threshold(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"cannot read the gate '{text}': '{number}' is not a number.")
    return value


def selector(text: str, part: str) -> tuple[str, str]:
    """`axis=value`, or a bare value: a whole number is a layer, a word a variant."""
    axis, equals, value = (piece.strip() for piece in part.partition("="))
    if equals and axis and value:
        return axis, value
    if equals:
        raise UsageError(f"cannot read '{part}' in the gate '{text}': write axis=value.")
    return ("layer" if re.fullmatch(r"-?\d+|-?\d*:-?\d*", axis) else "variant"), axis


def decide(report: Report, conditions: Iterable[Condition]) -> list[Verdict]:
    """One verdict per condition; a condition that matches nothing is a usage error."""
    return [verdict(condition, select(report, condition)) for condition in conditions]


def select(report: Report, condition: Condition) -> list[Row]:
    """The rows of the metric at the coordinates that every selector names, in whatever order they stand."""
    rows = [row for row in report.rows if row.metric == condition.metric]
    if not rows:
        raise unknown_name("metric in the gate", condition.metric, {r.metric for r in report.rows})
    chosen = rows
    for axis, wanted in condition.selectors:
        present = [row for row in rows if row.axis(axis) is not None]
        found = {id(row) for row in present if matches(row, axis, wanted, present)}
        if not found:
            raise UsageError(
                f"the gate '{condition.text}' matches nothing at {axis}={wanted}: {available(rows, axis)}."
            )
        chosen = [row for row in chosen if id(row) in found]
    if not chosen:
        raise UsageError(f"the gate '{condition.text}' matches nothing: no row has all of these.")
    return chosen


def matches(row: Row, axis: str, wanted: str, rows: Sequence[Row]) -> bool:
    """Whether the row's coordinate is the wanted value or lies in the wanted range.

    Counting from the end, the end is that of the rows that differ from this one along the axis alone.
    """
    value = row.axis(axis)
    if isinstance(value, str):
        return value == wanted
    assert value is not None
    first, colon, last = wanted.partition(":")
    numbers = [coordinate(value)]
    if "-" in wanted:
        numbers = [coordinate(other.axis(axis)) for other in rows if alike(row, other, axis)]
    try:
        low = bound(first, axis, numbers, -math.inf if colon else math.nan)
        high = bound(last, axis, numbers, math.inf) if colon else low
    except ValueError:
        return False
    return low <= value <= high


def alike(row: Row, other: Row, axis: str) -> bool:
    """Whether two rows share every coordinate but this one."""
    axes = {"variant", "layer", "head", *row.keys, *other.keys} - {axis}
    return all(row.axis(name) == other.axis(name) for name in axes)


def coordinate(value: Scalar | None) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def bound(text: str, axis: str, numbers: Sequence[float], empty: float) -> float:
    """One end of a range; negative layers and heads count from the end."""
    if not text.strip():
        return empty
    value = float(text)
    return max(numbers) + 1.0 + value if value < 0 and axis in ("layer", "head") else value


def available(rows: Sequence[Row], axis: str) -> str:
    values = list(dict.fromkeys(row.axis(axis) for row in rows if row.axis(axis) is not None))
    if not values:
        axes = [name for name in ("variant", "layer", "head") if rows[0].axis(name) is not None]
        return f"its rows have {', '.join([*axes, *rows[0].keys]) or 'no axes'}"
    if all(isinstance(value, int) for value in values) and len(values) > 6:
        return f"there are {min(values)} … {max(values)}"  # type: ignore[type-var]
    return f"there are {', '.join(map(str, values))}"


def verdict(condition: Condition, rows: Sequence[Row]) -> Verdict:
    """A gate fails where a number is lost or none applies, because nothing was shown to be well."""
    numbers = [row for row in rows if row.value is not None]
    lost = [row for row in rows if row.lost]
    if lost or not numbers:
        row = (lost or list(rows))[0]
        return Verdict(condition.text, True, f"no number to test: {place(row)} {row.note}")
    values = [row.value for row in numbers if row.value is not None]
    if condition.aggregate in AGGREGATES:
        value = AGGREGATES[condition.aggregate](values)
        return Verdict(
            condition.text, condition.holds(value), f"{value:.6g} over {counted(values)}"
        )
    holding = [row for row in numbers if row.value is not None and condition.holds(row.value)]
    failed = len(holding) == len(numbers) if condition.aggregate == "all" else bool(holding)
    return Verdict(condition.text, failed, evidence(condition, numbers, holding))


def evidence(condition: Condition, rows: Sequence[Row], holding: Sequence[Row]) -> str:
    """How many rows meet the condition, and the one nearest to or farthest past the threshold."""
    reverse = condition.op in (">", ">=")
    extreme = sorted(holding or rows, key=lambda row: row.value or 0.0, reverse=reverse)[0]
    return f"{len(holding)} of {counted(rows)}; {place(extreme)} {extreme.value:.6g}"


def counted(things: Sequence[object]) -> str:
    return f"{len(things)} value{'s' if len(things) != 1 else ''}"


def place(row: Row) -> str:
    """`SAN, layer 12:`"""
    parts = [str(row.variant)] if row.variant else []
    parts += [
        f"{axis} {row.axis(axis)}" for axis in ("layer", "head") if row.axis(axis) is not None
    ]
    parts += [f"{axis} {value}" for axis, value in row.keys.items()]
    return ", ".join(parts) + ":" if parts else "value"


def exit_code(report: Report) -> int:
    """The verdicts printed and this code are the same decision."""
    return 1 if any(verdict.failed for verdict in report.verdicts) else 0
