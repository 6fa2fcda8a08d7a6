"""How lines are told apart: by colour, by marker and by dash, so that print without colour does too."""

from collections.abc import Iterable
from typing import Any, NamedTuple

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which colour-blind readers tell apart; yellow left out, for it is none on white."""
MARKERS = "osD^vPX<>"
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
TWIN, TWIN_DASH = "@random", (0, (2.2, 1.4))
"""The ending of a variant of the same model with random weights: in its own variant's colour, dashed."""


class LineStyle(NamedTuple):
    """Of one line."""

    colour: str
    marker: str
    dash: Any
    weight: float
    """Of the line and the marker: of curves that lie on each other the lower one is seen beside the upper."""


TWIN_WORDS = ", random weights"


def format_series(series: str) -> str:
    """A line in words."""
    return series.replace(TWIN, TWIN_WORDS)


def assign_styles(names: Iterable[str]) -> dict[str, LineStyle]:
    """Colours come round first, with another dash each time; markers at their own pace, so that no two are alike."""
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
