import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.maths.common_row_arithmetic import arrays_with_integer_exponent
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    ScaledArray,
    align_scaled_to_exponent,
    expm1_scaled,
    log10_of_scaled,
    make_scaled_array,
    make_scaled_from_logs,
)

NUMBERS = st.floats(-1e100, 1e100).filter(lambda x: x == 0.0 or abs(x) > 1e-100)
EXPONENTS = st.integers(-(10**6), 10**6)


@given(st.lists(NUMBERS, min_size=1, max_size=6), EXPONENTS)
def test_normalising_is_exact_and_lands_in_one_octave(numbers: list[float], exponent: int) -> None:
    array = np.array(numbers)
    result = make_scaled_array(array, exponent)
    largest = np.abs(result.mantissa).max()
    assert largest == 0.0 or 0.5 <= largest < 1.0
    np.testing.assert_array_equal(align_scaled_to_exponent(result, exponent), array)


@given(st.lists(NUMBERS, min_size=3, max_size=3), st.lists(NUMBERS, min_size=3, max_size=3))
def test_sums_and_products_are_those_of_plain_numbers(a: list[float], b: list[float]) -> None:
    x, y = make_scaled_array(np.array(a)), make_scaled_array(np.array(b))
    np.testing.assert_allclose((x + y).value(), np.array(a) + np.array(b), rtol=1e-15)
    products = np.array(a) * np.array(b)
    floor = 1e-300 * np.abs(products).max()  # entries so far below the largest lose digits
    np.testing.assert_allclose((x * y).value(), products, rtol=1e-15, atol=floor)
    np.testing.assert_allclose((x * -3.0).value(), -3.0 * np.array(a), rtol=1e-15)


def test_what_is_far_below_disappears_beside_the_larger() -> None:
    small, large = make_scaled_array(np.ones(2), -(10**9)), make_scaled_array(np.ones(2))
    np.testing.assert_array_equal((small + large).value(), np.ones(2))
    assert (small + small).exponent == -(10**9) + 2


def test_zero_never_sets_the_scale() -> None:
    tiny = make_scaled_array(np.array([0.75]), -5000)
    found = make_scaled_array(np.zeros(1)) + tiny
    assert (found.mantissa.tolist(), found.exponent) == ([0.75], -5000)


def test_matmul_multiplies_the_mantissa() -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    result = make_scaled_array(np.array([1.0, 1.0]), -9000) @ matrix
    np.testing.assert_array_equal(align_scaled_to_exponent(result, -9000), [4.0, 6.0])


def test_logs_of_any_size_become_numbers() -> None:
    result = make_scaled_from_logs(np.array([1.0, -1.0]), np.array([-1e6, -1e6 - 1.0]))
    assert log10_of_scaled(float(result.mantissa[0]), result.exponent) == pytest.approx(
        -1e6 / math.log(10)
    )
    assert result.mantissa[1] / result.mantissa[0] == pytest.approx(-math.exp(-1.0))
    assert make_scaled_from_logs(np.ones(2), np.full(2, -math.inf)).is_zero()


def test_expm1_keeps_the_digits_of_small_arguments() -> None:
    tiny = make_scaled_array(np.array([1.25]), -4000)
    assert expm1_scaled(tiny) is tiny
    assert float(expm1_scaled(make_scaled_array(np.array([1e-3]))).value()[0]) == math.expm1(1e-3)


def test_log10_beyond_floats_is_infinite_with_its_sign() -> None:
    assert log10_of_scaled(0.5, 10**400) == math.inf
    assert log10_of_scaled(0.5, -(10**400)) == -math.inf
    assert log10_of_scaled(0.0, 5) == -math.inf


def test_values_outside_float_range_are_zero_or_infinite() -> None:
    assert ScaledArray(np.array([0.5]), -(10**9)).value()[0] == 0.0
    assert ScaledArray(np.array([0.5]), 10**9).value()[0] == math.inf


@pytest.mark.parametrize(
    "size", [1, 7, arrays_with_integer_exponent.SMALL - 1, arrays_with_integer_exponent.SMALL + 6]
)
def test_the_largest_magnitude_is_that_of_a_loop(size: int) -> None:
    """Of few numbers and of many, whose copy would take memory."""
    values = np.random.default_rng(size).normal(size=size)
    for each in (values, -np.abs(values), np.zeros(size)):
        assert arrays_with_integer_exponent.find_largest_magnitude(each) == max(
            map(abs, each.tolist())
        )
    values[size // 2] = np.nan
    assert np.isnan(arrays_with_integer_exponent.find_largest_magnitude(values))
    assert arrays_with_integer_exponent.find_largest_magnitude(values[:0]) == 0.0
