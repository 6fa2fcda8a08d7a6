"""Two reports side by side as curves: the new one drawn through, the old one dashed."""

from collections.abc import Iterator
from typing import Any

from attncli.maths.number_format import format_number
from attncli.records import FOUND_KEYS, JsonObject, Report, Row, View
from attncli.render._table_cells import NOTHING, TableGrid

OLD, NEW = "old", "new"
BOTH = View("Both reports: the new one drawn through, the old one dashed", "layer", (OLD, NEW))
OF_CHANGES = frozenset({"measured", "number", "among"})
"""Keys that a comparison adds to the coordinates of the numbers."""

Curve = dict[str, list[list[Any]]]
"""Points [x, value] by the name of their series."""


def build_comparison_curves(report: Report) -> Iterator[JsonObject]:
    """For every metric with numbers of whole layers, or over another axis: its axis and both sides'
    curves."""
    found: dict[tuple[str, str], dict[str, Curve]] = {}
    for row in report.rows:
        place = find_single_numeric_axis(row)
        if place is None or row.metric not in (OLD, NEW) or row.value is None:
            continue
        axis, x = place
        metric = str(row.keys["measured"])
        sides = found.setdefault((metric, axis), {OLD: {}, NEW: {}})
        sides[row.metric].setdefault(row.variant or metric, []).append([x, row.value])
    for (metric, axis), sides in found.items():
        if len({point[0] for curve in sides[NEW].values() for point in curve}) > 1:
            yield {"metric": metric, "axis": axis, **sides}


def find_single_numeric_axis(row: Row) -> tuple[str, float] | None:
    """The single axis of the number besides its variant; None where it has none, or several."""
    if "measured" not in row.keys or row.head is not None:
        return None
    keys = {name: x for name, x in row.keys.items() if name not in FOUND_KEYS | OF_CHANGES}
    axes = {**({} if row.layer is None else {"layer": row.layer}), **keys}
    if len(axes) != 1:
        return None
    ((axis, x),) = axes.items()
    return (axis, x) if isinstance(x, int | float) else None


def label_curves_of_reports(curves: Curve, suffix: str = "") -> list[JsonObject]:
    return [
        {"of": name, "kind": OLD, "name": name + suffix, "points": sorted(points)}
        for name, points in curves.items()
    ]


def build_comparison_table(comparison: JsonObject) -> TableGrid:
    """The numbers of one metric as a table."""
    lines = [
        *label_curves_of_reports(comparison[NEW], ", new"),
        *label_curves_of_reports(comparison[OLD], ", old"),
    ]
    at = [dict(line["points"]) for line in lines]
    cells = [
        (str(x), *(format_number(points[x]) if x in points else NOTHING for points in at))
        for x in sorted({x for points in at for x in points})
    ]
    header = (comparison["axis"], *(line["name"] for line in lines))
    return TableGrid(f"{comparison['metric']}: {BOTH.title}", header, tuple(cells))
