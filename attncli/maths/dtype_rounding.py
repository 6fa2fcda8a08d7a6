"""Round numbers to float64, float32 and bfloat16, in numpy alone.

numpy has no bfloat16: its values are stored as float32 with the last 16 bits zero, which is exact. A bfloat16 matrix
product is what hardware does: exact products of bfloat16 inputs summed in float32, and the result rounded to bfloat16.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]

DTYPES = ("float64", "float32", "bfloat16")

MANTISSA_BITS = {"float64": 53, "float32": 24, "bfloat16": 8}
"""Significant bits, the implicit leading one included: rounding is off by at most 2^-bits of the number."""


def round_to_dtype(array: Floats, dtype: str) -> Floats:
    """Round an array to nearest, ties to even; the result is in the smallest numpy type that represents it."""
    if dtype == "float64":
        return array.astype(np.float64)
    # out of range: inf or 0, as in the type itself
    with np.errstate(over="ignore", under="ignore"):
        single = array.astype(np.float32)
    return single if dtype == "float32" else round_to_bfloat16(single)


def round_to_bfloat16(single: Floats) -> Floats:
    """float32 → the nearest bfloat16, ties to even: add half of the dropped part, minus one if even, then cut."""
    bits = np.ascontiguousarray(single, dtype=np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    cut = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    rounded = np.where(np.isfinite(single), cut, bits)
    return rounded.view(np.float32)


def matmul_in_dtype(left: Floats, right: Floats, dtype: str) -> Floats:
    """left @ right as the type computes it; both must hold values of that type."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result: Floats = left @ right
        return round_to_bfloat16(result) if dtype == "bfloat16" else result
