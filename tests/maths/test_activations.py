"""Activations of (common, varying), against arbitrary precision."""

import mpmath
import numpy as np
import pytest

from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.activation_functions import (
    ACTIVATIONS,
    STEEPEST,
    multiply_by_sigmoid,
)
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    align_scaled_to_exponent,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts


def exact(name: str, x: mpmath.mpf) -> mpmath.mpf:
    if name == "relu":
        return max(x, mpmath.mpf(0))
    if name == "silu":
        return x / (1 + mpmath.exp(-x))
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3)
    return x / 2 * (1 + mpmath.tanh(inner))


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("power", [3, 0, -20, -2000])
@pytest.mark.parametrize("size", [1e-6, 0.3, 5.0, 40.0])
def test_differences_keep_their_digits(name: str, power: int, size: float) -> None:
    rng = np.random.default_rng(11)
    a, r = size * rng.standard_normal(8), rng.standard_normal((3, 8))
    result = ACTIVATIONS[name](SplitParts(make_scaled_array(a), make_scaled_array(r, power)))
    with mpmath.workdps(900):
        unit = mpmath.mpf(2) ** power
        common = [float(exact(name, mpmath.mpf(x))) for x in a]
        varying = [
            [
                float((exact(name, mpmath.mpf(x) + unit * mpmath.mpf(y)) - exact(name, mpmath.mpf(x))) / unit)
                for x, y in zip(a, row, strict=True)
            ]
            for row in r
        ]  # fmt: skip
    np.testing.assert_allclose(result.common.value(), common, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(
        align_scaled_to_exponent(result.varying, power), varying, rtol=1e-11, atol=1e-14
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_no_activation_is_steeper_than_the_bound_says(name: str) -> None:
    x = np.linspace(-20, 20, 400_001)
    values = ACTIVATIONS[name](
        SplitParts(make_scaled_array(np.zeros(x.size)), make_scaled_array(x[None]))
    )
    slope = np.diff(values.varying.value()[0]) / np.diff(x)
    assert 0.99 * slope.max() < STEEPEST[name]
    assert slope.max() <= STEEPEST[name] + 1e-9


def test_gates_far_in_their_tail_keep_their_relative_size() -> None:
    """σ(-1000) is no zero: e^-1000, and its changes likewise."""
    argument = SplitParts(
        make_scaled_array(np.array([-1000.0])), make_scaled_array(np.array([[1.0], [-1.0]]))
    )
    result = multiply_by_sigmoid(
        SplitParts(make_scaled_array(np.ones(1)), make_scaled_array(np.zeros((2, 1)))), argument
    )
    ratio = result.varying.mantissa[0, 0] / result.varying.mantissa[1, 0]
    assert ratio == pytest.approx((np.e - 1.0) / (1.0 / np.e - 1.0), rel=1e-9)
    log2_gate = np.log2(result.common.mantissa[0]) + result.common.exponent
    assert log2_gate == pytest.approx(-1000.0 / np.log(2.0), rel=1e-12)


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_inputs_beyond_the_cube_range_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="leave float range"):
        ACTIVATIONS[name](
            SplitParts(make_scaled_array(np.ones(2), 400), make_scaled_array(np.zeros((2, 2))))
        )
