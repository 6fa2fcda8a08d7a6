"""From the numbers of several seeds or texts to one row."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

from attncli.maths.significance_tests import (
    ConfidenceInterval,
    compute_student_confidence_interval,
    mean,
    standard_deviation,
)
from attncli.records import HIGH, LOW, Row, RowPlace, Scalar

NOTHING: Mapping[str, Scalar] = {}

EXTREMES: Mapping[str, Callable[[Sequence[float]], float]] = {"max": max, "min": min}
"""How several texts combine in metrics whose worst text counts."""

MOST_KEPT = 1000
"""Most single values that a row keeps besides their mean."""

UNRESOLVED = "not resolved: tokens coincide to the last bit, or one of them is zero"


def describe_averaging(count: int, what: str) -> str:
    """Suffix of a view's title where its numbers are means: `, mean ± standard deviation over 3
    seeds`."""
    return f", mean ± standard deviation over {count} {what}" if count > 1 else ""


def summarize_values(
    metric: str,
    unit: str,
    values: Sequence[float | None],
    why_null: str,
    keys: Mapping[str, Scalar] = NOTHING,
    take: str = "mean",
    **place: Unpack[RowPlace],
) -> Row:
    """Mean (or `take`) and standard deviation; null with the reason where a value is missing,
    unresolved or infinite."""
    numbers = [value for value in values if value is not None]
    if any(map(math.isnan, numbers)):
        why_null = UNRESOLVED
    if not numbers or len(numbers) < len(values) or not all(map(math.isfinite, numbers)):
        return Row(metric, None, unit, n=len(values), note=why_null, keys=keys, **place)
    middle = mean(numbers)
    each = tuple(numbers) if 1 < len(numbers) <= MOST_KEPT else ()
    value = middle if take == "mean" else EXTREMES[take](numbers)
    return Row(
        metric,
        value,
        unit,
        spread=standard_deviation(numbers, middle),
        n=len(numbers),
        keys=keys,
        each=each,
        **place,
    )


def confidence_interval_of_row(row: Row) -> ConfidenceInterval | None:
    """The row's own interval, or that of the mean of its n numbers; None for a single number."""
    low, high = row.keys.get(LOW), row.keys.get(HIGH)
    if isinstance(low, float) and isinstance(high, float):
        return ConfidenceInterval(low, high)
    if row.value is None or row.spread is None:
        return None
    return compute_student_confidence_interval(row.value, row.spread / math.sqrt(row.n), row.n - 1)


def select_rows_indistinguishable_from_first(order: Sequence[Row]) -> list[Row]:
    """The first row, and all whose intervals overlap its own; without intervals all."""
    around = {id(row): confidence_interval_of_row(row) for row in order}
    first = around[id(order[0])] if order else None
    return [
        row
        for row in order
        if first is None or (own := around[id(row)]) is None or own.high >= first.low
    ]


def select_rows_indistinguishable_from_last(order: Sequence[Row]) -> list[Row]:
    """The last row, and all whose intervals overlap its own; without intervals all."""
    around = {id(row): confidence_interval_of_row(row) for row in order}
    last = around[id(order[-1])] if order else None
    return [
        row
        for row in order
        if last is None or (own := around[id(row)]) is None or own.low <= last.high
    ]
