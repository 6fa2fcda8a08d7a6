"""Building blocks of patterns: pairs and offsets to sparse matrices in O(nonzeros) memory."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from attncli.errors import LimitError, UsageError
from attncli.maths.number_format import format_short_number

Index = NDArray[np.int64]

LARGEST = 200_000_000
"""Stored weights above which a pattern is refused: 12 bytes each, 2.4 GB."""


def require_parameter_at_least(pattern: str, name: str, value: int, smallest: int) -> None:
    """Refuse a parameter below its smallest meaningful value."""
    if value < smallest:
        raise UsageError(f"pattern '{pattern}': {name} must be at least {smallest}, not {value}.")


def require_pattern_fits_memory(pattern: str, nonzeros: float) -> None:
    """Refuse a pattern that would not fit in memory, before it is made."""
    if nonzeros > LARGEST:
        raise LimitError(
            f"pattern '{pattern}' has {format_short_number(nonzeros, 3)} weights ({12e-9 * nonzeros:.1f} GB): "
            "choose a smaller length or a sparser pattern."
        )


def make_pattern_from_pairs(
    length: int, query: ArrayLike, key: ArrayLike, weight: ArrayLike = 1.0
) -> csr_array:
    """The matrix with `weight` at (query, key); pairs outside are dropped, the last of equal pairs counts."""
    query, key = (
        np.asarray(part, dtype=np.int64).ravel() for part in np.broadcast_arrays(query, key)
    )
    weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), query.shape)
    inside = (key >= 0) & (key < length) & (query >= 0) & (query < length)
    place = query[inside] * length + key[inside]
    place, first = np.unique(place[::-1], return_index=True)
    chosen = weight[inside][::-1][first]
    return csr_array(coo_array((chosen, (place // length, place % length)), (length, length)))


def make_pattern_from_offsets(length: int, offsets: range | Index, causal: bool) -> csr_array:
    """Let every query i attend to the keys i + offset that exist (and, if causal, are not later)."""
    if isinstance(offsets, range):
        offsets = np.array(clip_offsets_to_length(offsets, length), dtype=np.int64)
    usable = offsets[(np.abs(offsets) < length) & ((offsets <= 0) | (not causal))]
    require_pattern_fits_memory("offsets", float(len(usable)) * length)
    tokens = np.arange(length)[:, None]
    return make_pattern_from_pairs(length, tokens, tokens + usable)


def clip_offsets_to_length(offsets: range, length: int) -> range:
    """Clip an ascending range of offsets to those with a key, without iterating over the others."""
    skipped = max(0, -((offsets.start + length - 1) // offsets.step))
    return range(offsets.start + skipped * offsets.step, min(offsets.stop, length), offsets.step)


def union_patterns(first: csr_array, second: csr_array) -> csr_array:
    """Both patterns; where they overlap the larger weight counts."""
    return csr_array(first.maximum(second))


def keep_causal_keys(pattern: csr_array) -> csr_array:
    """The keys that a causal query can see: those at or before it."""
    pairs = pattern.tocoo()
    seen = pairs.col <= pairs.row
    inside = (pairs.data[seen], (pairs.row[seen], pairs.col[seen]))
    return csr_array(coo_array(inside, pattern.shape))


def add_self_to_empty_rows(pattern: csr_array) -> csr_array:
    """Let a query without any key attend to itself."""
    empty = np.flatnonzero(np.diff(pattern.indptr) == 0)
    if not empty.size:
        return pattern
    return union_patterns(pattern, make_pattern_from_pairs(pattern.shape[0], empty, empty))


def normalise_pattern_rows(pattern: csr_array) -> csr_array:
    """Scale rows to sum to one."""
    # Each row by its own power of two, which is exact: sums of weights at either end of float64's range stay inside.
    counts, starts = np.diff(pattern.indptr), pattern.indptr[:-1]
    _, powers = np.frexp(np.maximum.reduceat(pattern.data, starts))
    data = np.ldexp(pattern.data, -np.repeat(powers, counts))
    sums = csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape).sum(axis=1)
    weights = data / np.repeat(np.asarray(sums).ravel(), counts)
    return csr_array((weights, pattern.indices, pattern.indptr), shape=pattern.shape)
