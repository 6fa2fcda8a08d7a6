"""Maps drawn with shades: target, achieved and error side by side."""

import itertools
from collections.abc import Iterator

from rich.text import Text

from attncli.maths.number_format import format_number
from attncli.records import MapPicture

SHADES = " ░▒▓█"
LARGEST, SMALLEST, GAP = 48, 8, 2
WIDEST, TALLEST = 120, 48
"""Columns and lines of a map, if the screen has more."""
LONGEST, LETTERS = 14, 6
"""Letters of a token before a row, and above a column."""
NAMED = 24
"""Letters of a panel's name that are shown in any case."""

Cells = tuple[tuple[float, ...], ...]


def draw_shaded_map(picture: MapPicture, width: int, height: int = TALLEST) -> Iterator[Text]:
    """Title, names and panels, as large as the screen allows; a single map has its tokens on both sides."""
    yield Text(f"\n{picture.title}", style="italic")
    cells = next(iter(picture.panels.values()))
    if len(picture.panels) == 1 and len(picture.labels) == len(cells):
        yield from add_token_names(cells, picture.labels, width, height)
        return
    count, size = len(picture.panels), len(cells)
    largest_side = LARGEST if count > 1 else WIDEST
    room = (width - GAP * (count - 1)) // count
    side = max(SMALLEST, min(largest_side, 2 * height, room, size))
    scales = colour_scale_of_panels(picture)
    pad = " " * GAP
    names = [f"{name} (█ = {format_number(scales[name])})" for name in picture.panels]
    column = max(side, min(max(map(len, names)), room if count > 1 else NAMED))
    yield Text(pad.join(name[:column].ljust(column) for name in names).rstrip(), style="dim")
    drawn = [
        [
            format_map_row(row, scales[name]).ljust(column)
            for row in max_pool_attention_map(cells, max(1, side // 2), side)
        ]
        for name, cells in picture.panels.items()
    ]
    yield from (Text(pad.join(parts).rstrip()) for parts in zip(*drawn, strict=True))


def add_token_names(
    cells: Cells, tokens: tuple[str, ...], width: int, height: int
) -> Iterator[Text]:
    """A line for each query and two columns for each key, with keys' names downwards; without space
    for all, one name stands for several tokens, that of the largest weights."""
    words = [token.strip() or repr(token) for token in tokens]
    gutter = min(LONGEST, max(map(len, words)))
    room = max(SMALLEST, width - gutter - 2)
    lines = max(SMALLEST, min(len(words), height - LETTERS))
    wide = 2 if 2 * len(words) <= room else 1
    columns = min(len(words), room // wide)
    full = find_largest_cell(cells)
    rows, across = split_into_ranges(len(words), lines), split_into_ranges(len(words), columns)
    heads = [format_tokens_of_cell(words, *each)[:LETTERS] for each in across]
    pad = " " * (gutter + 2)
    yield Text(f"{pad}█ = {format_number(full)}; a row is a query, a column a key", style="dim")
    for place in range(max(map(len, heads))):
        letters = (head[place : place + 1].ljust(wide) for head in heads)
        yield Text(f"{pad}{''.join(letters)}".rstrip(), style="dim")
    for (start, stop), row in zip(rows, max_pool_attention_map(cells, lines, columns), strict=True):
        shades = "".join(
            SHADES[choose_shade_index(value / full if full else 0.0)] * wide for value in row
        )
        yield Text.assemble(
            (
                f"{truncate_text(format_tokens_of_cell(words, start, stop), gutter):>{gutter}} │",
                "dim",
            ),
            shades,
        )


def truncate_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def format_tokens_of_cell(words: list[str], start: int, stop: int) -> str:
    """One token, or the first of several."""
    return words[start] if stop - start == 1 else f"{words[start]}…"


def colour_scale_of_panels(picture: MapPicture) -> dict[str, float]:
    """The full shade of each panel: one for all maps, a separate one for the error."""
    if len(picture.panels) == 1:
        return {name: find_largest_cell(cells) for name, cells in picture.panels.items()}
    *maps, error = picture.panels
    common = max(find_largest_cell(picture.panels[name]) for name in maps)
    return dict.fromkeys(maps, common) | {error: find_largest_cell(picture.panels[error])}


def find_largest_cell(cells: Cells) -> float:
    return max(map(max, cells))


def max_pool_attention_map(cells: Cells, rows: int, columns: int) -> list[list[float]]:
    """Pool cells: fewer, coarser ones, each the largest of those it covers."""
    bands = [cells[start:stop] for start, stop in split_into_ranges(len(cells), rows)]
    return [
        [
            max(max(row[start:stop]) for row in band)
            for start, stop in split_into_ranges(len(cells), columns)
        ]
        for band in bands
    ]


def split_into_ranges(length: int, count: int) -> list[tuple[int, int]]:
    """Split 0 … length into `count` ranges, none empty."""
    edges = [length * index // count for index in range(count + 1)]
    return [(start, max(stop, start + 1)) for start, stop in itertools.pairwise(edges)]


def format_map_row(row: list[float], full: float) -> str:
    """Any weight above 2 % of the full shade is seen."""
    return "".join(SHADES[choose_shade_index(value / full if full else 0.0)] for value in row)


def choose_shade_index(share: float) -> int:
    if share < 0.02:
        return 0
    return min(len(SHADES) - 1, 1 + int(share * (len(SHADES) - 1)))
