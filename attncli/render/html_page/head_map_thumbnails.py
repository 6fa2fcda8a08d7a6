"""Maps in 8 bits: weights in 255 steps of the largest, as fine as the eye can see."""

from array import array
from collections.abc import Iterator

from attncli.records import JsonObject, MapPicture, MapThumbnail, Report
from attncli.render.html_page.columns_as_bytes import EncodedColumn
from attncli.render.html_page.embedded_data import ColumnStore
from attncli.render.plots.attention_map_in_terminal import colour_scale_of_panels

STEPS = 255
MOST_PICTURES = 24
"""Most plots of a study of many patterns; the page says how many are left out."""


def encode_attention_maps(report: Report, store: ColumnStore) -> list[JsonObject]:
    """Pack maps: pictures of several side by side, then the maps of heads."""
    pictures = (encode_side_by_side_maps(each, store) for each in report.pictures[:MOST_PICTURES])
    return [*pictures, *(encode_map_of_head(each, store) for each in report.tiles)]


def count_omitted_maps(report: Report) -> int:
    return max(0, len(report.pictures) - MOST_PICTURES)


def encode_side_by_side_maps(picture: MapPicture, store: ColumnStore) -> JsonObject:
    return {
        "head": None,
        "title": picture.title,
        "queries": picture.labels,
        "keys": picture.labels,
        "step": 1,
        "panels": list(encode_map_panels(picture, store)),
    }


def encode_map_panels(picture: MapPicture, store: ColumnStore) -> Iterator[JsonObject]:
    scales = colour_scale_of_panels(picture)
    for name, cells in picture.panels.items():
        full = scales[name]
        scale = STEPS / full if full > 0.0 else 0.0
        steps = (min(STEPS, max(0, round(cell * scale))) for row in cells for cell in row)
        yield encode_map_panel(
            name, len(cells), len(cells[0]), full, array("B", steps).tobytes(), store
        )


def encode_map_of_head(tile: MapThumbnail, store: ColumnStore) -> JsonObject:
    return {
        "head": tile.head,
        "title": "",
        "queries": tile.queries,
        "keys": tile.keys,
        "step": tile.step,
        "panels": [
            encode_map_panel(tile.head, tile.rows, tile.columns, tile.full, tile.weights, store)
        ],
    }


def encode_map_panel(
    name: str, rows: int, columns: int, full: float, data: bytes, store: ColumnStore
) -> JsonObject:
    described = {"name": name, "rows": rows, "columns": columns, "full": full}
    return store.append_encoded_column(EncodedColumn(described, data))
