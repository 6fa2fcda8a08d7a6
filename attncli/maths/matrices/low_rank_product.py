"""A wide square matrix of low rank, stored as two thin factors and never formed.

    M = left right^T            left, right: [wide, thin], M: [wide, wide]

Its nonzero eigenvalues are those of the thin core right^T left. With left = Q₁R₁ and right = Q₂R₂ its nonzero singular
values are those of R₁R₂^T, so that no step costs more than O(wide · thin²).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attncli.maths.matrices.matrix_norms import singular_values

Array = NDArray[np.float64]
Eigenvalues = NDArray[np.complex128]


@dataclass(frozen=True)
class LowRankProduct:
    """The product left right^T, stored as its factors."""

    left: Array
    right: Array

    @property
    def matrix_size(self) -> int:
        return len(self.left)

    @property
    def is_zero(self) -> bool:
        return not self.singular_values.any()

    @cached_property
    def core_with_same_eigenvalues(self) -> Array:
        """right^T left [thin, thin], which has the nonzero eigenvalues of the product; the product itself where that
        is smaller."""
        thin = self.left.shape[1] <= self.matrix_size
        core: Array = self.right.T @ self.left if thin else self.left @ self.right.T
        return core

    @cached_property
    def eigenvalues(self) -> Eigenvalues:
        """Eigenvalues of the core, at most the product's rank; those below its rounding are left out, as their signs are chance."""
        values = np.linalg.eigvals(self.core_with_same_eigenvalues).astype(np.complex128)
        scale = np.linalg.norm(self.left) * np.linalg.norm(self.right)
        rounding = np.finfo(np.float64).eps * scale
        rank = int((self.singular_values > rounding).sum())
        largest = values[np.argsort(-np.abs(values), kind="stable")[:rank]]
        resolved: Eigenvalues = largest[np.abs(largest) > rounding]
        return resolved

    @cached_property
    def singular_values(self) -> Array:
        """Singular values from the largest; at most as many as the factors are thin."""
        return singular_values(qr_upper_triangle(self.left) @ qr_upper_triangle(self.right).T)


def qr_upper_triangle(factor: Array) -> Array:
    """R of the factor's QR decomposition."""
    return np.asarray(np.linalg.qr(factor, mode="r"), dtype=np.float64)
