"""Rows of how many paths each length has."""

from collections.abc import Iterable, Iterator, Mapping

from attncli.maths.network_path_counts import compute_share_of_paths_per_length, log10_of_integer
from attncli.records import NOT_APPLICABLE, Row, Scalar


def build_path_count_rows(counts: dict[int, int], variant: str) -> Iterator[Row]:
    """Rows of exact counts, in the note where a float cannot represent them."""
    for (length, count), share in zip(
        counts.items(), compute_share_of_paths_per_length(counts).values(), strict=True
    ):
        keys = {"length": length}
        yield build_path_count_row(count, variant, keys)
        yield Row("log10_path_count", log10_of_integer(count), "log10", variant=variant, keys=keys)
        yield Row("path_count_share", share, "1", variant=variant, keys=keys)


def sort_path_counts_by_length(rows: Iterable[Row]) -> list[Row]:
    """Sort by length; without skips, biases begin paths of lengths that no other path has."""
    return sorted(rows, key=lambda row: int(row.keys["length"]))


def build_path_count_row(count: int, variant: str, keys: Mapping[str, Scalar]) -> Row:
    if log10_of_integer(count) > 308:
        exact = log10_of_integer(count) < MOST_DIGITS
        count_text = f"exactly {count}" if exact else "its logarithm is log10_path_count"
        note = f"{NOT_APPLICABLE}beyond float range: {count_text}"
        return Row("path_count", None, "paths", note=note, variant=variant, keys=keys)
    inexact = int(float(count)) != count
    return Row(
        "path_count",
        float(count),
        "paths",
        note=f"exactly {count}" if inexact else None,
        variant=variant,
        keys=keys,
    )


MOST_DIGITS = 1000
"""Of a number that a note spells out; Python itself refuses some thousands."""
