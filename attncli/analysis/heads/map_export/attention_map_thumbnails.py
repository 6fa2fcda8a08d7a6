"""Maps small enough for a page, reduced strip by strip: a byte for each cell, never more than a
page can hold."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from attncli.analysis.heads.report_rows.head_rows import Keeps
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.capture import AttentionSite, MapShape, Strip
from attncli.records import MapThumbnail, Row, Scalar

ROOM = 4 * 2**20
"""Most bytes of maps on a page, if requested."""
UNASKED = 2**17
"""Most bytes of maps on a page by default: those of every head over a short text."""
HELD = 2**26
"""Most bytes while it is not known which heads `--top` selects."""
LARGEST, SMALLEST = 256, 8
"""Cells on a side."""
STEPS = 255

Chosen = Callable[[AttentionSite], list[int]]
"""Returns the heads to collect, by their index in the attention layer."""


@dataclass
class Thumbnails:
    """Observer that reduces the strips of each map to a thumbnail."""

    side: int
    """Cells on a side, at most."""
    choose_heads_of_layer: Chosen
    sites: list[AttentionSite] = field(default_factory=list)
    """Those that were seen, whether they have maps or not."""
    maps: dict[AttentionSite, list[tuple[int, bytes, float]]] = field(default_factory=dict)
    """For every head its index, its cells, and the weight of the darkest cell."""
    shapes: dict[AttentionSite, tuple[int, int, int]] = field(default_factory=dict)
    """Queries, keys, and tokens along the side of a cell."""
    growing: NDArray[np.float32] | None = None

    def accumulate_map_rows(self, site: AttentionSite, strip: Strip) -> None:
        heads = self.choose_heads_of_layer(site)
        if strip.contains_first_map_row:
            self.sites.append(site)
        # Windows have no place in the text; what one map takes off another has weights below 0.
        if strip.round or not heads or len(strip.weights) > 1 or site.is_differential_map:
            return
        step = -(-max(strip.queries, strip.keys) // self.side)
        if strip.contains_first_map_row:
            self.shapes[site] = (strip.queries, strip.keys, step)
            cells = (-(-strip.queries // step), -(-strip.keys // step))
            self.growing = np.zeros((len(heads), *cells), np.float32)
        assert self.growing is not None
        chosen = strip.weights[0]
        if len(heads) < len(chosen):
            chosen = chosen[heads]
        weights = chosen.float().cpu().numpy()
        found = downsample_by_maximum(
            downsample_by_maximum(weights, strip.first_query, step, 1), strip.first_key, step, 2
        )
        rows = slice(strip.first_query // step, strip.first_query // step + found.shape[1])
        part = slice(strip.first_key // step, strip.first_key // step + found.shape[2])
        np.maximum(self.growing[:, rows, part], found, out=self.growing[:, rows, part])
        if strip.contains_last_map_row:
            self.maps[site] = [
                (head, *quantise_map_cells_to_bytes(cells))
                for head, cells in zip(heads, self.growing, strict=True)
            ]
            self.growing = None

    def build_thumbnails(
        self,
        names: TokenNames,
        keys: Mapping[AttentionSite, Mapping[str, Scalar]],
        numbers: Mapping[AttentionSite, Sequence[int]],
        rows: Iterable[Row],
    ) -> Iterator[MapThumbnail]:
        """Tiles of the heads that have rows; `numbers`: head numbers, where they differ from
        indices."""
        named = {format_layer_and_head(row) for row in rows if row.head is not None}
        for site, found in self.maps.items():
            queries, seen, step = self.shapes[site]
            asking, looked_at = names.names_of_queries_and_keys(site, queries, seen)
            for head, cells, full in found:
                number = numbers[site][head] if site in numbers else head
                name = format_layer_and_head(
                    Row("", None, "", layer=site.layer, head=number, keys=keys[site])
                )
                if name in named:
                    shape = (-(-queries // step), -(-seen // step))
                    yield MapThumbnail(
                        name, *shape, cells, full, step, tuple(asking), tuple(looked_at)
                    )


def format_layer_and_head(row: Row) -> str:
    """`5.1`, with the stack and the kind of attention where there are several."""
    words = [str(row.keys[key]) for key in ("stack", "kind") if key in row.keys]
    return " ".join([*words, f"{row.layer}.{row.head}"])


def downsample_by_maximum(
    weights: NDArray[np.float32], first: int, step: int, axis: int
) -> NDArray[np.float32]:
    """The largest weight of each `step` neighbours along an axis; its index 0 is the map's index
    `first`. No weight is below 0."""
    if step == 1:
        return weights
    before, size, shape = first % step, weights.shape[axis], list(weights.shape)
    shape[axis] = -(-(before + size) // step) * step
    padded = np.zeros(shape, weights.dtype)
    along = np.moveaxis(padded, axis, 0)
    along[before : before + size] = np.moveaxis(weights, axis, 0)
    found = reduce(np.maximum, (along[place::step] for place in range(step)))
    return np.moveaxis(found, 0, axis)


def quantise_map_cells_to_bytes(cells: NDArray[np.float32]) -> tuple[bytes, float]:
    full = float(cells.max())
    scaled: NDArray[np.floating] = cells * (STEPS / full) if full > 0.0 else cells
    return np.rint(scaled).clip(0, STEPS).astype(np.uint8).tobytes(), full


def make_head_selector(
    layers: Collection[int] | None, selects: Keeps, shapes: Mapping[AttentionSite, MapShape]
) -> Chosen:
    """The heads that --layers and --heads select, by their indices, which in a model are their
    numbers."""

    def choose_heads_of_layer(site: AttentionSite) -> list[int]:
        if site not in shapes or (layers is not None and site.layer not in layers):
            return []
        return [head for head in range(shapes[site].heads) if selects(site.layer, head)]

    return choose_heads_of_layer


def choose_thumbnail_size(
    shapes: Mapping[AttentionSite, MapShape], chosen: Chosen, requested: bool, top: int | None
) -> int | None:
    """Largest number of cells per side that fits; None where maps were not requested and are not
    small."""
    counts = {site: len(chosen(site)) for site in shapes}
    cells = sum(counts[site] * shape.queries * shape.keys for site, shape in shapes.items())
    longest = max((max(shape.queries, shape.keys) for shape in shapes.values()), default=0)
    if not requested:
        return LARGEST if cells <= UNASKED and longest <= LARGEST else None
    largest = max(1, sum(counts.values()))
    shown = largest if top is None else min(top, largest)
    room = min(math.isqrt(ROOM // shown), math.isqrt(HELD // largest))
    return max(SMALLEST, min(LARGEST, room))
