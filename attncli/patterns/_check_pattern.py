"""Check that a matrix from a file is a pattern; every refusal is one sentence with the position."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from attncli.errors import InputError, LimitError, UsageError
from attncli.patterns._make_sparse_pattern import LARGEST

SMALLEST_SHARE = 1e-290
"""Of a row's largest weight: below, its share of the row is no normal number, and neither is its inverse."""


def require_file_fits_memory(path: Path, numbers: int) -> None:
    """Refuse a file that would not fit in memory, before it is read."""
    if numbers > LARGEST:
        raise LimitError(
            f"{path} says that it holds {numbers:,} numbers, and a pattern can have {LARGEST:,}: "
            "save fewer tokens, or the weights that are not zero as a sparse matrix."
        )


def make_pattern_from_dense(path: Path | str, matrix: ArrayLike) -> csr_array:
    """A dense array as sparse; NaN counts as nonzero and is found later."""
    array = np.asarray(matrix)
    if array.ndim != 2:
        raise InputError(
            f"{path} holds an array of shape {array.shape}: a pattern is [query, key]."
        )
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_) or np.iscomplexobj(
        array
    ):
        raise InputError(f"{path} holds {array.dtype} values: a pattern needs real numbers.")
    return csr_array(array.astype(np.float64))


def refuse_duplicate_entries(path: Path | str, matrix: csr_array) -> csr_array:
    """Refuse a matrix that gives the same entry twice: adding and replacing would both be guesses."""
    pairs = coo_array(matrix)
    if np.iscomplexobj(pairs.data):
        raise InputError(f"{path} holds complex values: a pattern needs real numbers.")
    if not np.issubdtype(pairs.data.dtype, np.number) and pairs.data.dtype != np.bool_:
        raise InputError(f"{path} holds {pairs.data.dtype} values: a pattern needs real numbers.")
    rows, columns = (index.astype(np.int64) for index in pairs.coords)
    place, count = np.unique(rows * pairs.shape[1] + columns, return_counts=True)
    if (count > 1).any():
        row, column = divmod(int(place[count > 1][0]), pairs.shape[1])
        raise InputError(
            f"{path} gives entry ({row + 1}, {column + 1}) {int(count.max())} times (counting from 1): "
            "a weight must stand there once."
        )
    return csr_array(coo_array((pairs.data.astype(np.float64), (rows, columns)), pairs.shape))


def check_pattern_shape(path: Path | str, shape: tuple[int, int], length: int | None) -> None:
    if shape[0] != shape[1] or shape[0] == 0:
        raise InputError(
            f"{path} is {shape[0]} × {shape[1]}: a pattern is a square matrix [query, key]."
        )
    if length is not None and length != shape[0]:
        raise UsageError(
            f"{path} has {shape[0]} tokens, but `length` says {length}: leave it out.",
            about=["length"],
        )


def check_pattern_weights(path: Path | str, pattern: csr_array) -> None:
    """Refuse NaN, infinite and negative weights, with their position."""
    bad = ~np.isfinite(pattern.data) | (pattern.data < 0)
    if bad.any():
        pairs = pattern.tocoo()
        row, column, value = (part[bad][0] for part in (pairs.row, pairs.col, pairs.data))
        kind = "negative" if value < 0 and np.isfinite(value) else "not finite"
        raise InputError(
            f"{path} has a weight that is {kind} at row {row}, column {column} (counting from 0): {value:g}; "
            "weights must be zero or positive."
        )


def check_pattern_rows(path: Path | str, pattern: csr_array, causal: bool) -> None:
    """Refuse rows without a key, and keys ahead of a causal query."""
    empty = np.flatnonzero(np.diff(pattern.indptr) == 0)
    if empty.size:
        raise InputError(
            f"{path} row {empty[0]} has no weight ({empty.size} such rows, counting from 0): "
            "every query must attend to a key."
        )
    refuse_negligible_weights(path, pattern)
    pairs = pattern.tocoo()
    ahead = np.flatnonzero(pairs.col > pairs.row)
    if causal and ahead.size:
        row, column = pairs.row[ahead[0]], pairs.col[ahead[0]]
        raise InputError(
            f"{path} has a weight at row {row}, column {column}, which the causal mask hides "
            f"({ahead.size} such weights): leave out `causal` or cut them."
        )


def refuse_negligible_weights(path: Path | str, pattern: csr_array) -> None:
    """Refuse rows with a weight so far below the row's largest that it counts as zero."""
    starts, counts = pattern.indptr[:-1], np.diff(pattern.indptr)
    largest = np.repeat(np.maximum.reduceat(pattern.data, starts), counts)
    small = np.flatnonzero(pattern.data / 2.0 < largest * SMALLEST_SHARE)
    if small.size:
        row = int(np.searchsorted(pattern.indptr, small[0], side="right")) - 1
        raise InputError(
            f"{path} row {row} has weights of {pattern.data[small[0]]:.3g} and {largest[small[0]]:.3g} (counting from 0): "
            f"less than {SMALLEST_SHARE:g} of the largest is lost in rounding, leave it out, as :above=T does."
        )
