"""The laws as numbers: what was fitted says the same as what is drawn."""

import pytest

from attncli.maths.curve_fits.evaluate_growth_law import RATES, evaluate_growth_law
from attncli.maths.curve_fits.width_growth_laws import rank_width_growth_laws


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0])
def test_the_drawn_law_is_the_fitted_one(exponent: float) -> None:
    """Through points that obey it, every law that can is exact; told from the fit's own parameters."""
    lengths = [16.0, 32.0, 64.0, 128.0, 256.0]
    widths = [3.0 * n**exponent for n in lengths]
    for law in rank_width_growth_laws(lengths, widths):
        start, *rest = law.parameters
        assert (law.name in RATES) == bool(rest)
        drawn = [evaluate_growth_law(law.name, start, rest[0] if rest else 0.0, n) for n in lengths]
        if law.name == "power" or exponent == 0.0:
            assert drawn == pytest.approx(widths, rel=1e-4)
        assert sum(drawn) == pytest.approx(sum(widths), rel=2e-2)
    assert evaluate_growth_law("log", 2.0, 3.0, 1.0) == 2.0
    assert evaluate_growth_law("power", 2.0, 3.0, 2.0) == 16.0
