"""Arrays whose magnitude may leave float range: `mantissa · 2^exponent`, the exponent a Python integer.

A Python integer never overflows, so a residual of 10^-170000 or 10^-(10^300) is carried like any other, and scaling
by a power of two is exact: normalising an array rounds nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BEYOND_FLOATS = 2200
"""Shifting any float64 by 2^±this gives 0 or inf: its exponents run from -1074 to 1024."""

LARGEST_FACTOR = 1000
"""log2 of a power of two that is a normal float, as its inverse is."""

NEGLIGIBLE = -60
"""2^-60 is well below half a unit in the last place of 1: smaller additions to 1 change nothing."""

MODERATE = 400
"""log2 of the largest numbers, and less of the smallest ones, that products are made of as they are."""

SMALL = 2**16
"""Numbers in an array of which a copy costs nothing."""

LOG10_2 = math.log10(2.0)


@dataclass(frozen=True, slots=True, eq=False)
class ScaledArray:
    """`mantissa · 2^exponent`; the mantissa's largest magnitude lies in [1/2, 1), or the array is all zero."""

    mantissa: Array
    exponent: int

    def value(self) -> Array:
        """The plain array; what leaves float range becomes 0 or inf."""
        return scale_by_power_of_two(self.mantissa, self.exponent)

    def is_zero(self) -> bool:
        return not self.mantissa.any()

    def map_linearly(self, linear: Callable[[Array], Array]) -> "ScaledArray":
        """A linear function of the numbers."""
        return make_scaled_array(linear(self.mantissa), self.exponent)

    def apply_layout_change(self, move: Callable[[Array], Array]) -> "ScaledArray":
        """The same numbers, or all but repeated ones, in another layout."""
        return ScaledArray(move(self.mantissa), self.exponent)

    def __add__(self, other: "ScaledArray") -> "ScaledArray":
        top = find_common_exponent(self, other)
        return make_scaled_array(
            align_scaled_to_exponent(self, top) + align_scaled_to_exponent(other, top), top
        )

    def __sub__(self, other: "ScaledArray") -> "ScaledArray":
        return self + -other

    def __neg__(self) -> "ScaledArray":
        return ScaledArray(-self.mantissa, self.exponent)

    def __mul__(self, other: "ScaledArray | Array | float") -> "ScaledArray":
        """The product number by number, also with a plain array or number."""
        if isinstance(other, ScaledArray):
            return make_scaled_array(self.mantissa * other.mantissa, self.exponent + other.exponent)
        return make_scaled_array(self.mantissa * other, self.exponent)

    def __matmul__(self, other: "ScaledArray | Array") -> "ScaledArray":
        """The matrix product, also with a plain array, whose numbers may be anywhere in the float range."""
        weights = other if isinstance(other, ScaledArray) else scale_into_float_range(other)
        return make_scaled_array(self.mantissa @ weights.mantissa, self.exponent + weights.exponent)


def scale_by_power_of_two(array: Array, exponent: int) -> Array:
    """`array · 2^exponent`, for any integer exponent."""
    if exponent == 0:
        return array
    with np.errstate(over="ignore", under="ignore"):
        if abs(exponent) <= LARGEST_FACTOR:
            return array * 2.0**exponent  # rounds as ldexp does, in a fifth of its time
        return np.ldexp(array, max(-BEYOND_FLOATS, min(BEYOND_FLOATS, exponent)))


def make_scaled_array(array: Array, exponent: int = 0) -> ScaledArray:
    """`array · 2^exponent`, normalised (exactly: by a power of two)."""
    largest = find_largest_magnitude(array)
    if largest == 0.0:
        return ScaledArray(array, 0)
    own = math.frexp(largest)[1]
    return ScaledArray(scale_by_power_of_two(array, -own), exponent + own)


def find_largest_magnitude(array: Array) -> float:
    if 0 < array.size <= SMALL:  # numpy's reductions over several axes take five times as long
        return float(np.abs(array).max())
    return max(float(array.max()), -float(array.min())) if array.size else 0.0


def find_common_exponent(*arrays: ScaledArray) -> int:
    """The largest exponent among the arrays that are not zero (0 if all are)."""
    return max((array.exponent for array in arrays if not array.is_zero()), default=0)


def align_scaled_to_exponent(array: ScaledArray, exponent: int) -> Array:
    """The array in units of 2^exponent; much smaller numbers become 0."""
    return scale_by_power_of_two(array.mantissa, array.exponent - exponent)


def scale_into_float_range(array: Array) -> ScaledArray:
    """The array itself, or divided by a power of two where products with it could exceed the float range."""
    largest = find_largest_magnitude(array)
    if largest == 0.0 or 2.0**-MODERATE < largest < 2.0**MODERATE:
        return ScaledArray(array, 0)
    return make_scaled_array(array)


def make_scaled_from_logs(sign: Array, log_magnitude: Array) -> ScaledArray:
    """`sign · e^log_magnitude`, elementwise, whatever the magnitude."""
    top = float(log_magnitude.max(initial=-math.inf))
    if top == -math.inf:
        return ScaledArray(np.zeros(log_magnitude.shape), 0)
    fraction, exponent = math.modf(top / math.log(2.0))
    return make_scaled_array(sign * np.exp(log_magnitude - top) * 2.0**fraction, int(exponent))


def expm1_scaled(array: ScaledArray) -> ScaledArray:
    """e^x - 1, to full relative accuracy however small x is."""
    if array.exponent < NEGLIGIBLE:
        return array
    return make_scaled_array(np.expm1(array.value()))


def log10_of_scaled(magnitude: float, exponent: int) -> float:
    """log10(magnitude · 2^exponent); ±inf for zero and where the logarithm itself leaves float range."""
    if magnitude == 0.0:
        return -math.inf
    try:
        return math.log10(magnitude) + exponent * LOG10_2
    except OverflowError:  # an integer too large for floats
        return math.inf if exponent > 0 else -math.inf


def log2_of_scaled(magnitude: float, exponent: int) -> float:
    """log2(magnitude · 2^exponent), likewise."""
    return log10_of_scaled(magnitude, exponent) / LOG10_2
