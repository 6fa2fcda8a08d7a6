"""Norms of split states, against the same norms in arbitrary precision."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    align_scaled_to_exponent,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import (
    SplitState,
    normalise_features_of_tokens,
)


def exact_norm(row: list[mpmath.mpf], epsilon: float, centre: bool) -> list[mpmath.mpf]:
    mean = mpmath.fsum(row) / len(row) if centre else mpmath.mpf(0)
    centred = [value - mean for value in row]
    size = mpmath.sqrt(mpmath.fsum(v**2 for v in centred) / len(row) + mpmath.mpf(epsilon))
    return [value / size for value in centred]


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("power", [0, -3, -30, -300, -3000])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e6])
def test_norms_keep_the_residual_however_small(centre: bool, power: int, size: float) -> None:
    rng = np.random.default_rng(7)
    common, varying = size * rng.standard_normal(6), size * rng.standard_normal((4, 6))
    varying -= varying.mean(axis=0)
    state = SplitState(make_scaled_array(common), make_scaled_array(varying, power), plain=False)
    result = normalise_features_of_tokens(state, 1e-5, centre)
    with mpmath.workdps(1200):
        unit = mpmath.mpf(2) ** power
        rows = [
            exact_norm([mpmath.mpf(c) + unit * mpmath.mpf(v) for c, v in zip(common, row, strict=True)], 1e-5, centre)
            for row in varying
        ]  # fmt: skip
        means = [mpmath.fsum(column) / 4 for column in zip(*rows, strict=True)]
        exact = [[float((v - m) / unit) for v, m in zip(row, means, strict=True)] for row in rows]
    np.testing.assert_allclose(
        align_scaled_to_exponent(result.varying, power),
        exact,
        rtol=1e-9,
        atol=1e-12 * np.abs(exact).max(),
    )


def test_a_residual_along_the_common_row_survives_a_norm_only_through_epsilon() -> None:
    """Layer norm maps 2c to the same point as c but for ε: the difference must not be rounding."""
    common = np.array([1.0, -2.0, 1.0])
    varying = np.array([1e-3, -1e-3])[:, None] * common
    result = normalise_features_of_tokens(
        SplitState(make_scaled_array(common), make_scaled_array(varying), plain=False),
        1e-5,
        centre=True,
    )
    v = float(np.mean(common**2))
    slope = 1e-5 / (v + 1e-5) ** 1.5
    np.testing.assert_allclose(result.varying.value()[0], 1e-3 * slope * common, rtol=1e-2)


@given(st.integers(0, 10**6))
def test_split_and_joined_are_the_same_state(seed: int) -> None:
    states = np.random.default_rng(seed).standard_normal((5, 3)) + 10.0
    plain = SplitState.from_states(states)
    np.testing.assert_allclose(plain.to_split_form().states.value(), states, rtol=1e-15)
    np.testing.assert_allclose(
        plain.to_split_form().to_plain_form().states.value(), states, rtol=1e-15
    )
    np.testing.assert_allclose(
        plain.residual_to_token_mean.value(), states - states.mean(axis=0), atol=1e-14
    )


def test_a_split_residual_is_centred_and_its_mean_is_not_lost() -> None:
    state = SplitState(
        make_scaled_array(np.ones(2)),
        make_scaled_array(np.array([[1.0, 2.0], [3.0, 4.0]])),
        plain=False,
    )
    np.testing.assert_array_equal(state.varying.value(), [[-1.0, -1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(state.common.value(), [3.0, 4.0])


def test_spread_is_minus_infinity_for_equal_tokens() -> None:
    assert SplitState.from_states(np.ones((3, 2))).log2_residual_relative_to_states == -np.inf
    assert SplitState.from_states(np.eye(3)).log2_residual_relative_to_states == -1  # 2/3 beside 1


def test_a_norm_keeps_small_tokens_beside_huge_ones() -> None:
    """Their squares would vanish in units of the largest."""
    rows = np.array([[1.0, -2.0, 4.0], [3e200, 1e200, -5e200], [2e-50, 1e-50, -1e-50]])
    found = (
        normalise_features_of_tokens(SplitState.from_states(rows).to_plain_form(), 0.0, centre=True)
        .to_plain_form()
        .varying.value()
    )
    for row, ours in zip(rows, found, strict=True):
        own = row / np.abs(row).max()
        own -= own.mean()
        np.testing.assert_allclose(ours, own / np.sqrt(np.mean(own**2)), rtol=1e-12)
