"""Rows of several texts."""

import pytest

from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.maths.number_format import format_number
from attncli.render.plots.chart_data import inverse_symmetric_log, symmetric_log


def test_a_mean_whose_sum_no_float_holds() -> None:
    row = summarize_values("sink", "1", [1.5e308, 1.5e308, 0.0], "")
    assert row.value == pytest.approx(1e308)
    assert row.spread == pytest.approx(8.66e307, rel=1e-3)


def test_the_largest_numbers_are_shown() -> None:
    """A difference may be beyond them, and an axis end there."""
    assert "inf" in format_number(float("inf"))
    for value in (1e308, -1e308, 1.7e308, 2.5):
        assert inverse_symmetric_log(symmetric_log(value)) == pytest.approx(value)
    assert inverse_symmetric_log(400.0) == pytest.approx(1.797e308, rel=1e-3)
