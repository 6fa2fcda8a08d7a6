"""Bounds against the numbers they were stated with, and laws of growth that were planted."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.maths.curve_fits.width_growth_laws import rank_width_growth_laws
from attncli.maths.head_capacity import width_formulas


def test_the_papers_bound_as_stated() -> None:
    assert width_formulas.compute_johnson_lindenstrauss_width(
        1024, 1, 0.2, 0.2, 1.0
    ) == pytest.approx(2.4e4, rel=0.02)


@given(
    n=st.integers(2, 10**6),
    k=st.integers(1, 50),
    epsilon=st.floats(1e-3, 0.9),
    gamma=st.floats(1.0, 1e6),
)
def test_the_bound_grows_with_everything_that_makes_it_harder(
    n: int, k: int, epsilon: float, gamma: float
) -> None:
    here = width_formulas.compute_johnson_lindenstrauss_width(n, k, epsilon, epsilon, gamma)
    assert (
        width_formulas.compute_johnson_lindenstrauss_width(2 * n, k, epsilon, epsilon, gamma)
        >= here
    )
    assert (
        width_formulas.compute_johnson_lindenstrauss_width(n, k + 1, epsilon, epsilon, gamma)
        >= here
    )
    assert (
        width_formulas.compute_johnson_lindenstrauss_width(n, k, epsilon / 2, epsilon, gamma)
        >= here
    )
    assert (
        width_formulas.compute_johnson_lindenstrauss_width(n, k, epsilon, epsilon, 2 * gamma)
        >= here
    )


def test_lower_limits() -> None:
    assert width_formulas.compute_least_width_for_all_supports(1000, 4) == 8
    assert width_formulas.compute_least_width_for_all_supports(6, 4) == 5
    assert width_formulas.bound_width_by_pattern_count(5) == 3
    exact = math.log(math.comb(20, 3)) / math.log(1 + 2 / 0.5)
    scale = -math.log(0.2) / 0.5
    assert width_formulas.compute_least_width_for_fixed_keys(20, 3, 0.2, scale) == pytest.approx(
        exact, rel=1e-12
    )
    assert width_formulas.compute_circle_logit_scale(2048, 0.2) == pytest.approx(
        math.log(5) / (1 - math.cos(2 * math.pi / 2048)), rel=1e-6
    )
    assert width_formulas.compute_permutation_logit_scale_exponent(3) == 1.0


LAWS = {
    "constant": lambda n: 7.0 + 0 * n,
    "log": lambda n: 3.0 + 5.0 * np.log(n),
    "power": lambda n: 2.0 * n**0.5,
}


@pytest.mark.parametrize("name", LAWS)
def test_a_planted_law_is_found(name: str) -> None:
    lengths = np.repeat(2.0 ** np.arange(5, 12), 3)
    noise = np.random.default_rng(0).normal(size=len(lengths)) * 0.5
    laws = rank_width_growth_laws(lengths, LAWS[name](lengths) + noise)
    assert laws[0].name == name
    if name == "log":
        assert laws[0].slope_error is not None
        assert abs(laws[0].parameters[1] - 5.0) <= 4 * laws[0].slope_error
    if name == "power":
        assert laws[0].parameters[1] == pytest.approx(0.5, abs=0.03)


def test_three_lengths_fit_no_law() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        rank_width_growth_laws([8, 16, 32, 32], [1, 2, 3, 3])


@pytest.mark.slow
def test_a_winner_outlasts_any_length_left_out() -> None:
    """One length that alone makes the difference names no law; and fewer seeds never name one that more do not."""
    lengths = np.array([16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
    lone = [4.0, 4.0, 4.0, 4.0, 4.0, 12.0]
    best, *others = rank_width_growth_laws(lengths, lone)
    assert others[0].aic - best.aic > 2.0
    assert any(law.rival for law in others)
    rng = np.random.default_rng(0)
    named = {2: 0, 6: 0}
    for _ in range(60):
        for seeds in named:
            noisy = 6.0 + 0.3 * np.log(np.tile(lengths, seeds)) + rng.normal(size=6 * seeds)
            laws = rank_width_growth_laws(np.tile(lengths, seeds), np.round(noisy))
            named[seeds] += not any(law.rival for law in laws)
    assert named[2] <= 2
    assert named[2] <= named[6] + 1
