"""Laws of growth on curves made from them, plateaus and falls."""

import numpy as np
import pytest

from attncli.analysis.rank_collapse.findings_and_headlines import (
    describe_activation_spike,
    describe_variance_growth,
)
from attncli.maths.curve_fits.growth_over_depth import (
    classify_growth_over_depth,
    find_layers_where_number_decreases,
    iter_layer_ranges_of_constant_count,
)

LAYERS = np.arange(1.0, 13.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("law", ["exponential", "power"])
def test_the_law_that_made_a_curve_is_told(law: str, seed: int) -> None:
    noise = 0.01 * np.random.default_rng(seed).standard_normal(12)
    curve = {"exponential": 0.11 * LAYERS, "power": 1.5 * np.log10(LAYERS)}[law] + noise
    found = classify_growth_over_depth(curve.tolist())
    assert found is not None
    said = found.describe_depth_growth()
    if law == "exponential":
        assert said.startswith("grows exponentially: ×1.2")
        assert "told apart" not in said
    else:
        assert said.startswith("grows as layer^1.5")


def test_what_lies_between_the_laws_is_not_told_apart() -> None:
    found = classify_growth_over_depth((0.05 * LAYERS + 0.6 * np.log10(LAYERS)).tolist())
    assert found is not None
    assert found.describe_depth_growth().endswith("not told apart")


@pytest.mark.parametrize("curve", [[0.0, 1.0, 2.0, 3.0], [0.0, 0.2, -0.1, 0.15, -0.2, 0.1], [0.0] * 12, [0.0, 0.01, 0.0, 0.0, 0.0, 0.9], [0.0, 1.0, np.nan, 2.0, 3.0]])  # fmt: skip
def test_nothing_is_told_of_too_few_layers_or_where_nothing_grows(curve: list[float]) -> None:
    assert classify_growth_over_depth(curve) is None


def test_what_falls_is_not_told_to_grow() -> None:
    """As of a trained MPNet: ×0.99 a layer."""
    found = classify_growth_over_depth((-0.05 * LAYERS + 0.01 * (-1.0) ** LAYERS).tolist())
    assert found is not None
    assert found.describe_depth_growth().startswith("falls exponentially: ×0.89")


def test_what_stands_still_but_ends_a_little_above_does_not_grow() -> None:
    words = describe_variance_growth([0.0, 0.0, 0.1, -0.05, 0.05, -0.1, 0.02, 0.01])
    assert words == "variance neither grows nor falls steadily"


@pytest.mark.parametrize(
    ("above", "words"), [([3], "at state 3"), ([2, 3, 4], "from state 2 to 4")]
)
def test_one_state_is_no_range(above: list[int], words: str) -> None:
    curve = [20.0 if state in above else 1.0 for state in range(6)]
    assert f"and more {words}, " in describe_activation_spike(curve)


def test_falls_and_plateaus() -> None:
    assert find_layers_where_number_decreases([1.0, 1.1, 1.05, 1.2, 1.2, 0.9]) == [2, 5]
    assert list(iter_layer_ranges_of_constant_count([9, 4, 4, 4, 2, 2, 1, 1, 1])) == [(1, 3, 4)]
    assert list(iter_layer_ranges_of_constant_count([9, 9, 9, 3, 3, 3])) == [(3, 5, 3)]
