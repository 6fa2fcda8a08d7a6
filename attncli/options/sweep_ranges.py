"""The grammar of `--sweep`."""

import math
from collections.abc import Mapping

from attncli.errors import UsageError
from attncli.registry import convert_entry_parameter

MOST_STEPS = 1000
FORM = "NAME=FROM:TO, NAME=FROM:TO:STEPS or NAME=1,2,4"


def parse_size_sweep(text: str, swept: Mapping[str, type]) -> tuple[str, list[float]]:
    """`tokens=16:1024` → ("tokens", [16, 32, …, 1024]); ranges are geometric, about doubling unless steps are given."""
    name, _, values = text.partition("=")
    if name not in swept or not values:
        raise UsageError(f"cannot sweep '{text}': write {FORM} with one of {', '.join(swept)}.")
    return name, parse_size_range(f"`sweep={text!r}`", name, values, swept[name])


def parse_size_range(where: str, name: str, values: str, kind: type) -> list[float]:
    """Expand a list or a range of sizes; `where` names the option in error messages."""
    if ":" not in values:
        points = [convert_entry_parameter(where, name, part, kind) for part in values.split(",")]
        return list(dict.fromkeys(points))
    first, last, *steps = values.split(":")
    ends = (
        convert_entry_parameter(where, "FROM", first, kind),
        convert_entry_parameter(where, "TO", last, kind),
    )
    doublings = steps or [str(count_doublings_between_sizes(*ends))]
    count = convert_entry_parameter(where, "STEPS", ":".join(doublings), int)
    if not 0 < ends[0] < ends[1] < math.inf or not 2 <= count <= MOST_STEPS:
        raise UsageError(f"{where}: the range must go up from above 0, in 2 to {MOST_STEPS} steps.")
    exact = [ends[0] * (ends[1] / ends[0]) ** (index / (count - 1)) for index in range(count)]
    points = [round(point) if kind is int else float(f"{point:.6g}") for point in exact]
    return list(dict.fromkeys(points))


def count_doublings_between_sizes(first: float, last: float) -> int:
    return (
        max(2, round(math.log2(last) - math.log2(first)) + 1) if 0 < first < last < math.inf else 2
    )
