"""Line styles: lines differ by colour, by marker and by dash, so that print without colour works
too."""

from collections.abc import Iterable
from typing import Any, NamedTuple

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours for colour-blind readers, without yellow, which is illegible on white."""
MARKERS = "osD^vPX<>"
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
TWIN, TWIN_DASH = "@random", (0, (2.2, 1.4))
"""Suffix of the random-init variant, and its dash: it has the colour of its own variant."""


class LineStyle(NamedTuple):
    """Colour, marker and dash of one line."""

    colour: str
    marker: str
    dash: Any
    weight: float
    """Width of the line and the marker, so that of overlapping curves the lower one is visible."""


TWIN_WORDS = ", random weights"


def format_series_name(series: str) -> str:
    """Format a line's name."""
    return series.replace(TWIN, TWIN_WORDS)


def assign_line_styles(names: Iterable[str]) -> dict[str, LineStyle]:
    """Assign styles: colours repeat with another dash; markers cycle separately, so that no two
    lines are alike."""
    found: dict[str, LineStyle] = {}
    own = list(dict.fromkeys(name.removesuffix(TWIN) for name in names))
    for index, name in enumerate(own):
        colour = COLOURS[index % len(COLOURS)]
        marker = MARKERS[index % len(MARKERS)]
        dash = DASHES[index // len(COLOURS) % len(DASHES)]
        weight = max(0.9, 1.4 - 0.12 * index)
        found[name] = LineStyle(colour, marker, dash, weight)
        found[name + TWIN] = LineStyle(colour, marker, TWIN_DASH, weight)
    return found
