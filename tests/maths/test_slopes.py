"""Slopes of a few points and their errors, against the formulas of a textbook and scipy."""

import numpy as np
import pytest
from scipy import stats

from attncli.maths.curve_fits.straight_line_slopes import fit_slopes_of_lines


def test_against_scipy() -> None:
    stream = np.random.default_rng(0)
    places = np.array([50.0, 100.0, 150.0, 300.0, 350.0])
    curves = stream.normal(size=(7, 5)) + np.outer(np.arange(7), places)
    found = fit_slopes_of_lines(places, curves)
    for curve, slope, error in zip(curves, *found, strict=True):
        known = stats.linregress(places, curve)
        assert slope == pytest.approx(known.slope, rel=1e-9)
        assert error == pytest.approx(known.stderr, rel=1e-6)


def test_a_straight_line_has_no_error() -> None:
    found = fit_slopes_of_lines(np.array([1.0, 2.0, 3.0]), np.array([[5.0, 7.0, 9.0]]))
    assert found.slope[0] == pytest.approx(2.0)
    assert found.error[0] == pytest.approx(0.0, abs=1e-12)


def test_two_points_have_a_slope_and_no_error() -> None:
    found = fit_slopes_of_lines(np.array([1.0, 3.0]), np.array([[5.0, 7.0]]))
    assert found.slope[0] == pytest.approx(1.0)
    assert np.isnan(found.error[0])


@pytest.mark.parametrize("places", [[4.0], [4.0, 4.0]])
def test_one_place_has_neither(places: list[float]) -> None:
    found = fit_slopes_of_lines(np.array(places), np.ones((2, len(places))))
    assert np.isnan(found.slope).all()
    assert np.isnan(found.error).all()


def test_a_gap_is_no_number() -> None:
    found = fit_slopes_of_lines(
        np.array([1.0, 2.0, 3.0]), np.array([[5.0, np.nan, 9.0], [1.0, 2.0, 4.0]])
    )
    assert np.isnan(found.slope[0])
    assert found.slope[1] == pytest.approx(1.5)
