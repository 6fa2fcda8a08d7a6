"""Refuse gates that can match nothing before the work: by the coordinates that the report's rows will have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from attncli.errors import UsageError, make_unknown_name_error
from attncli.gates.conditions import Condition
from attncli.gates.row_selection import select_rows
from attncli.records import Report, Row, Scalar

OWN = ("variant", "layer", "head")
"""Axes that are fields of a row."""


def refuse_gates_that_match_no_row(
    conditions: Iterable[Condition], axes: Mapping[str, Sequence[Scalar]]
) -> None:
    """Selectors on these axes that match none of the values that there will be; of other axes nothing is known yet."""
    for condition in conditions:
        for axis, value in condition.selectors:
            if axis in axes:
                rows = tuple(
                    make_row_at_coordinate(condition.metric, axis, place) for place in axes[axis]
                )
                select_rows(
                    Report("", "", rows, {}, {}), replace(condition, selectors=((axis, value),))
                )


def make_row_at_coordinate(metric: str, axis: str, place: Scalar) -> Row:
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
