"""Maps in 8 bits: weights in 255 steps of the largest, which is what an eye tells apart."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from attncli.records import Picture
from attncli.render.page.columns import Packed
from attncli.render.page.packed import Store
from attncli.render.plots.maps import scales_of
from attncli.visible import visible

STEPS = 255


def pictures(found: Iterable[Picture], store: Store) -> Iterator[dict[str, Any]]:
    for picture in found:
        scales = scales_of(picture)
        yield {
            "title": visible(picture.title),
            "labels": list(map(visible, picture.labels)),
            "panels": [
                store.add(tile(visible(name), cells, scales[name]))
                for name, cells in picture.panels.items()
            ],
        }


def tile(name: str, cells: tuple[tuple[float, ...], ...], full: float) -> Packed:
    scale = STEPS / full if full > 0.0 else 0.0
    data = array("B", (min(STEPS, max(0, round(cell * scale))) for row in cells for cell in row))
    return Packed(
        {"name": name, "rows": len(cells), "columns": len(cells[0]), "full": full}, data.tobytes()
    )
