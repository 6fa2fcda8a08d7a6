"""Student's t against mpmath, Holm against its definition, spreads against the standard library."""

import itertools
import statistics

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attncli.maths.significance_tests import (
    adjust_p_values_by_holm,
    compute_two_sided_p_value,
    compute_welch_degrees_of_freedom,
    standard_deviation,
    student_quantile,
)


@pytest.mark.parametrize("freedom", [1, 1.7, 2, 7, 30, 199, 1e4])
@pytest.mark.parametrize("t", [0.0, 1e-9, 0.1, -1.0, 2.0, 5.6, -40.0, 1e4])
def test_the_tails_of_students_t(t: float, freedom: float) -> None:
    with mpmath.workdps(40):
        x = mpmath.mpf(freedom) / (freedom + mpmath.mpf(t) ** 2)
        wanted = mpmath.betainc(mpmath.mpf(freedom) / 2, 0.5, 0, x, regularized=True)
    if wanted > 1e-280:
        assert compute_two_sided_p_value(t, freedom) == pytest.approx(float(wanted), rel=1e-8)


def test_closed_forms_and_extremes() -> None:
    assert compute_two_sided_p_value(1.0, 1) == pytest.approx(0.5, rel=1e-12)  # Cauchy
    assert compute_two_sided_p_value(0.0, 5) == 1.0
    assert compute_two_sided_p_value(float("inf"), 3) == 0.0


def test_welchs_degrees_of_freedom() -> None:
    assert compute_welch_degrees_of_freedom((2.0, 8), (2.0, 8)) == pytest.approx(14)
    assert compute_welch_degrees_of_freedom((0.0, 5), (3.0, 8)) == pytest.approx(7)
    assert compute_welch_degrees_of_freedom((0.0, 5), (0.0, 8)) == 1.0


chances = st.lists(st.floats(0, 1), min_size=1, max_size=6)


@given(chances)
def test_holm_rejects_what_its_steps_reject(found: list[float]) -> None:
    """Smallest first, each against α over those that are left, until one is not below."""
    adjusted = adjust_p_values_by_holm(found)
    for alpha in (0.01, 0.05, 0.3):
        order = sorted(range(len(found)), key=found.__getitem__)
        steps = [found[place] * (len(found) - rank) <= alpha for rank, place in enumerate(order)]
        rejected = set(order[: len(list(itertools.takewhile(bool, steps)))])
        assert rejected == {place for place, chance in enumerate(adjusted) if chance <= alpha}


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9))
def test_spread_is_the_standard_deviation(numbers: list[float]) -> None:
    mean = statistics.fmean(numbers)
    assert standard_deviation(numbers, mean) == pytest.approx(
        statistics.stdev(numbers), rel=1e-6, abs=1e-6
    )


@pytest.mark.parametrize("freedom", [1, 2, 7, 31.5, 400])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.999])
def test_quantiles_of_t_are_scipys(share: float, freedom: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(stats.t.ppf((1 + share) / 2, freedom))
