"""Rows of several texts."""

import pytest

from attncli.studies.statistics import summary_row


def test_a_mean_whose_sum_no_float_holds() -> None:
    row = summary_row("sink", "1", [1.5e308, 1.5e308, 0.0], "")
    assert row.value == pytest.approx(1e308)
    assert row.spread == pytest.approx(8.66e307, rel=1e-3)
