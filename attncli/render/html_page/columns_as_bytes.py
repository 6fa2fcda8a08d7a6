"""Rows as columns of bytes: numbers in four bytes each, all other values as codes into a list of
distinct values."""

import math
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attncli.records import ROW_COLUMNS, JsonObject, Report, Scalar

FEWEST_NUMBERS = 256
"""Number of distinct floats above which another axis, such as a control's value, is stored as
numbers."""
SMALL, LARGE = 1e-30, 1e6
"""Sizes between which four bytes preserve every digit shown; other numbers are stored exactly."""
MOST_EXACT = 0.05
"""Share of such numbers above which the column takes eight bytes."""

Cell = Scalar | None


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column's description, and its bytes."""

    description: JsonObject
    data: bytes


def encode_report_columns(report: Report) -> Iterator[EncodedColumn]:
    """Pack the columns of the report contract, then further axes in order of appearance; empty ones are left out."""
    for name in ROW_COLUMNS:
        cells = [getattr(row, name) for row in report.rows]
        yield from encode_report_column(name, cells, numbers=name in ("value", "spread"))
    for name in dict.fromkeys(key for row in report.rows for key in row.keys):
        yield from encode_report_column(name, [row.keys.get(name) for row in report.rows])


def encode_report_column(
    name: str, cells: Sequence[Cell], numbers: bool = False
) -> Iterator[EncodedColumn]:
    if all(cell is None for cell in cells):
        return
    if numbers or is_column_numeric(cells):
        yield encode_number_column(
            name,
            [math.nan if cell is None else convert_to_float_or_infinity(cell) for cell in cells],
        )
    else:
        yield encode_category_column(name, cells)


def is_column_numeric(cells: Sequence[Cell]) -> bool:
    distinct = set(cells) - {None}
    return len(distinct) > FEWEST_NUMBERS and all(isinstance(cell, float) for cell in distinct)


def convert_to_float_or_infinity(cell: Scalar) -> float:
    """Convert a cell to float; a whole number may be larger than any float."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf


def encode_number_column(name: str, cells: list[float]) -> EncodedColumn:
    """Pack numbers in four bytes; `exact` lists the rows whose number would change, with it."""
    odd = [index for index, cell in enumerate(cells) if cell and not SMALL < abs(cell) < LARGE]
    exact = [index for index in odd if not math.isnan(cells[index])]
    wide = len(exact) > MOST_EXACT * len(cells)
    described: JsonObject = {"name": name, "kind": "numbers", "width": 8 if wide else 4}
    if not wide:
        described["exact"] = [[index, cells[index]] for index in exact]
        for index in exact:
            cells[index] = 0.0
    return EncodedColumn(described, split_byte_planes(array("d" if wide else "f", cells)))


def encode_category_column(name: str, cells: Sequence[Cell]) -> EncodedColumn:
    """Pack values as codes; 1 and 1.0 are the same number, in a page as in Python."""
    codes: dict[Cell, int] = {}
    found = [codes.setdefault(cell, len(codes)) for cell in cells]
    kind = "B" if len(codes) <= 2**8 else "H" if len(codes) <= 2**16 else "I"
    data = array(kind, found)
    described = {"name": name, "kind": "codes", "width": data.itemsize, "values": list(codes)}
    return EncodedColumn(described, split_byte_planes(data))


def split_byte_planes(values: "array[int] | array[float]") -> bytes:
    """Little-endian bytes, the first bytes of all values before the second ones, which compresses better."""
    if sys.byteorder == "big":
        values.byteswap()
    data = values.tobytes()
    return b"".join(data[place :: values.itemsize] for place in range(values.itemsize))
