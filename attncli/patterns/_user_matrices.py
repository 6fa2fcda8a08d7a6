"""Patterns that Python callers pass as matrices: numpy, scipy sparse, torch or pandas, each named for the report."""

import hashlib
from collections.abc import Sequence
from typing import Any

from scipy.sparse import csr_array, issparse

from attncli.errors import UsageError
from attncli.io.in_memory_arrays import refuse_masked_arrays, torch_to_numpy
from attncli.patterns._check_pattern import (
    check_pattern_rows,
    check_pattern_shape,
    check_pattern_weights,
    make_pattern_from_dense,
    refuse_duplicate_entries,
)
from attncli.records import JsonObject

NAME = "matrix"


class UserMatrix(str):
    """A matrix and its name, accepted wherever the text of a pattern is."""

    weights: csr_array

    def to_checked_pattern(self, length: int | None, causal: bool) -> csr_array:
        check_pattern_shape(self, self.weights.shape, length)
        check_pattern_rows(self, self.weights, causal)
        return self.weights

    def describe(self) -> JsonObject:
        """The report's description, which distinguishes different matrices of the same name."""
        digest = hashlib.sha256()
        for part in (self.weights.indptr, self.weights.indices, self.weights.data):
            digest.update(part.astype(part.dtype.newbyteorder("<")).tobytes())
        return {"shape": list(self.weights.shape), "sha256": digest.hexdigest()}


def choose_pattern_names(patterns: Sequence[object]) -> list[str]:
    """Name the patterns: `matrix`, or `matrix 1`, `matrix 2` … where several have no text."""
    several = sum(not isinstance(each, str) for each in patterns) > 1
    found: list[str] = []
    for each in patterns:
        if isinstance(each, str):
            found.append(each)
            continue
        count = 1 + sum(isinstance(one, UserMatrix) for one in found)
        found.append(make_user_matrix(f"{NAME} {count}" if several else NAME, each))
    return found


def make_user_matrix(name: str, value: object) -> UserMatrix:
    result = UserMatrix(name)
    result.weights = convert_to_sparse(name, value)
    check_pattern_weights(name, result.weights)
    result.weights.eliminate_zeros()
    result.weights.sort_indices()
    return result


def convert_to_sparse(name: str, value: Any) -> csr_array:
    """Convert to sparse float64 without duplicate entries; anything but an array of numbers is refused."""
    if issparse(value):
        return refuse_duplicate_entries(name, value)
    if not hasattr(value, "shape"):
        raise UsageError(
            f"`pattern` must be names or matrices, not {value!r:.80}: give a matrix as an array."
        )
    if hasattr(value, "detach"):
        return make_pattern_from_dense(name, torch_to_numpy(value, name))
    refuse_masked_arrays(value, name)
    return make_pattern_from_dense(name, value)
