"""Format mixers and layers for messages."""

from collections.abc import Iterable
from itertools import groupby


def pluralise(kind: str) -> str:
    return kind if kind.endswith(("s", "attention")) else f"{kind}s"


def format_layers(layers: Iterable[int]) -> str:
    """`layers 0-2, 4`."""
    ordered = sorted(set(layers))
    runs = [
        [layer for _, layer in run]
        for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    ]
    ranges = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"layer{'' if len(ordered) == 1 else 's'} {ranges}"
