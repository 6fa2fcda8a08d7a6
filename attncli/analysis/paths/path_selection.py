"""Paths as choices: which head, or the skip, in each layer."""

from collections.abc import Sequence

import numpy as np

from attncli.errors import UsageError, format_count
from attncli.resource_limits import parse_whole_number

Path = tuple[int, ...]
"""One choice for each layer: 0 is the skip, 1 … H the heads."""


def parse_residual_path(text: str, heads: Sequence[int], skip: bool) -> Path:
    """Parse `0,3,1`: one head number per layer; `heads`: the number of heads of each layer."""
    first = 0 if skip else 1
    most = f"{heads[0]}" if len(set(heads)) == 1 else "that layer's number of heads"
    valid = f"a path of this network has {format_count(len(heads), 'number')} from {first} to {most}, one for each layer"
    valid += " (0 = the skip)." if skip else ": without skips there is no 0."
    parts = [part.strip() for part in text.split(",")]
    if not all(parse_whole_number(part) is not None for part in parts):
        raise UsageError(f"`path={text!r}` is not numbers with commas between: {valid}")
    path = tuple(map(int, parts))
    if len(path) != len(heads) or not all(
        map(is_head_number_in_range, path, heads, [first] * len(heads))
    ):
        raise UsageError(f"`path={text!r}` does not exist: {valid}")
    return path


def is_head_number_in_range(choice: int, most: int, least: int) -> bool:
    return least <= choice <= most


def residual_path_length(path: Path) -> int:
    return sum(choice > 0 for choice in path)


def sample_residual_path(stream: np.random.Generator, heads: Sequence[int], length: int) -> Path:
    """Layers without replacement, a head of each uniformly."""
    path = [0] * len(heads)
    for layer in stream.choice(len(heads), size=length, replace=False).tolist():
        path[layer] = int(stream.integers(1, heads[layer] + 1))
    return tuple(path)
