"""The types that travel between rooms."""

import dataclasses
from typing import Any

import pytest
from reports import HAND_MADE

from attncli.records import ROW_COLUMNS, Finding, Report, Row, Verdict, View

ROW = Row("entropy", 1.5, "nat", "SAN", 3, 2, 0.25, 4, None, {"tokens": 16})


@pytest.mark.parametrize("record", [ROW, HAND_MADE, *HAND_MADE.verdicts[:1], *HAND_MADE.views[:1]])
def test_records_are_frozen(record: Any) -> None:
    first = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, first, "other")


@pytest.mark.parametrize("kind", [Row, Report, View, Finding, Verdict])
def test_records_take_no_further_attributes(kind: type) -> None:
    assert "__dict__" not in dir(kind)


def test_flat_holds_every_coordinate_once_in_the_order_of_the_contract() -> None:
    assert ROW.flat() == {
        "metric": "entropy",
        "variant": "SAN",
        "layer": 3,
        "head": 2,
        "value": 1.5,
        "spread": 0.25,
        "n": 4,
        "unit": "nat",
        "note": None,
        "tokens": 16,
    }
    drawn = dataclasses.replace(ROW, each=(1.0, 2.0))
    assert drawn.flat() == {**ROW.flat(), "each": [1.0, 2.0]}
    assert tuple(ROW.flat())[: len(ROW_COLUMNS)] == ROW_COLUMNS
    assert {field.name for field in dataclasses.fields(Row)} == {*ROW_COLUMNS, "keys", "each"}


def test_what_does_not_apply_is_none_never_zero() -> None:
    bare = Row("entropy", 0.0, "nat").flat()
    assert {name for name, value in bare.items() if value is None} == {
        "variant",
        "layer",
        "head",
        "spread",
        "note",
    }


@pytest.mark.parametrize(
    ("axis", "value"),
    [
        ("variant", "SAN"),
        ("layer", 3),
        ("head", 2),
        ("tokens", 16),
        ("length", None),
        ("value", None),
    ],
)
def test_axes_are_coordinates_and_keys_but_not_numbers(axis: str, value: object) -> None:
    assert ROW.axis(axis) == value


def test_a_report_with_verdicts_is_otherwise_the_same() -> None:
    bare = dataclasses.replace(HAND_MADE, verdicts=())
    assert bare.with_verdicts(HAND_MADE.verdicts) == HAND_MADE
    assert bare.verdicts == ()
