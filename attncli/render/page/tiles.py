"""Maps in 8 bits: weights in 255 steps of the largest, which is what an eye tells apart."""

from array import array
from collections.abc import Iterator
from typing import Any

from attncli.records import Picture, Report, Tile
from attncli.render.page.columns import Packed
from attncli.render.page.packed import Store
from attncli.render.plots.maps import scales_of
from attncli.sanitize import visible

STEPS = 255
MOST_PICTURES = 24
"""Of a study of many patterns; the page says how many are left out."""


def maps_of(report: Report, store: Store) -> list[dict[str, Any]]:
    """Pictures of several maps side by side, then the maps of heads."""
    pictures = (picture_of(each, store) for each in report.pictures[:MOST_PICTURES])
    return [*pictures, *(head_of(each, store) for each in report.tiles)]


def left_out(report: Report) -> int:
    return max(0, len(report.pictures) - MOST_PICTURES)


def picture_of(picture: Picture, store: Store) -> dict[str, Any]:
    names = list(map(visible, picture.labels))
    panels = list(panels_of(picture, store))
    return {
        "head": None,
        "title": visible(picture.title),
        "queries": names,
        "keys": names,
        "step": 1,
        "panels": panels,
    }


def panels_of(picture: Picture, store: Store) -> Iterator[dict[str, Any]]:
    scales = scales_of(picture)
    for name, cells in picture.panels.items():
        full = scales[name]
        scale = STEPS / full if full > 0.0 else 0.0
        steps = (min(STEPS, max(0, round(cell * scale))) for row in cells for cell in row)
        yield panel(name, len(cells), len(cells[0]), full, array("B", steps).tobytes(), store)


def head_of(tile: Tile, store: Store) -> dict[str, Any]:
    return {
        "head": visible(tile.head),
        "title": "",
        "queries": list(map(visible, tile.queries)),
        "keys": list(map(visible, tile.keys)),
        "step": tile.step,
        "panels": [panel(tile.head, tile.rows, tile.columns, tile.full, tile.weights, store)],
    }


def panel(
    name: str, rows: int, columns: int, full: float, data: bytes, store: Store
) -> dict[str, Any]:
    described = {"name": visible(name), "rows": rows, "columns": columns, "full": full}
    return store.add(Packed(described, data))
