"""Maps drawn with shades: target, achieved and error side by side."""

import itertools
from collections.abc import Iterator

from rich.text import Text

from attncli.maths.digits import number
from attncli.records import Picture

SHADES = " ░▒▓█"
LARGEST, SMALLEST, GAP = 48, 8, 2

Cells = tuple[tuple[float, ...], ...]


def shaded(picture: Picture, width: int) -> Iterator[Text]:
    """Title, names and panels; a character is a cell across and two cells down, as terminals are taller than wide."""
    count = len(picture.panels)
    size = len(next(iter(picture.panels.values())))
    side = max(SMALLEST, min(LARGEST, (width - GAP * (count - 1)) // count, size))
    scales = scales_of(picture)
    yield Text(f"\n{picture.title}", style="italic")
    names = [f"{name} (█ = {number(scales[name])})" for name in picture.panels]
    pad = " " * GAP
    yield Text(pad.join(name[:side].ljust(side) for name in names).rstrip(), style="dim")
    drawn = [
        [line(row, scales[name]) for row in pooled(cells, max(1, side // 2), side)]
        for name, cells in picture.panels.items()
    ]
    yield from (Text(pad.join(parts)) for parts in zip(*drawn, strict=True))


def scales_of(picture: Picture) -> dict[str, float]:
    """The full shade of each panel: one for all maps, the error's own for the last of several."""
    if len(picture.panels) == 1:
        return {name: largest(cells) for name, cells in picture.panels.items()}
    *maps, error = picture.panels
    common = max(largest(picture.panels[name]) for name in maps)
    return dict.fromkeys(maps, common) | {error: largest(picture.panels[error])}


def largest(cells: Cells) -> float:
    return max(map(max, cells))


def pooled(cells: Cells, rows: int, columns: int) -> list[list[float]]:
    """Fewer, coarser cells, each the largest of those it covers."""
    bands = [cells[start:stop] for start, stop in parts(len(cells), rows)]
    return [
        [max(max(row[start:stop]) for row in band) for start, stop in parts(len(cells), columns)]
        for band in bands
    ]


def parts(length: int, count: int) -> list[tuple[int, int]]:
    """0 … length in so many ranges, none empty."""
    edges = [length * index // count for index in range(count + 1)]
    return [(start, max(stop, start + 1)) for start, stop in itertools.pairwise(edges)]


def line(row: list[float], full: float) -> str:
    """Any weight above 2 % of the full shade is seen."""
    return "".join(SHADES[shade(value / full if full else 0.0)] for value in row)


def shade(share: float) -> int:
    if share < 0.02:
        return 0
    return min(len(SHADES) - 1, 1 + int(share * (len(SHADES) - 1)))
