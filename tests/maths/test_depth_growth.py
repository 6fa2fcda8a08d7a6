"""Laws of growth on curves made from them, plateaus and falls."""

import numpy as np
import pytest

from attncli.maths.curves.depth_growth import falls, growth, plateaus

LAYERS = np.arange(1.0, 13.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("law", ["exponential", "power"])
def test_the_law_that_made_a_curve_is_told(law: str, seed: int) -> None:
    noise = 0.01 * np.random.default_rng(seed).standard_normal(12)
    curve = {"exponential": 0.11 * LAYERS, "power": 1.5 * np.log10(LAYERS)}[law] + noise
    found = growth(curve.tolist())
    assert found is not None
    said = found.in_words()
    if law == "exponential":
        assert said.startswith("exponentially: ×1.2")
        assert "told apart" not in said
    else:
        assert said.startswith("as layer^1.5")


def test_what_lies_between_the_laws_is_not_told_apart() -> None:
    found = growth((0.05 * LAYERS + 0.6 * np.log10(LAYERS)).tolist())
    assert found is not None
    assert found.in_words().endswith("not told apart")


@pytest.mark.parametrize("curve", [[0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.5, 0.1], [0.0, 1.0, np.nan, 2.0, 3.0]])  # fmt: skip
def test_nothing_is_told_of_too_few_layers_or_where_nothing_grows(curve: list[float]) -> None:
    assert growth(curve) is None


def test_falls_and_plateaus() -> None:
    assert falls([1.0, 1.1, 1.05, 1.2, 1.2, 0.9]) == [2, 5]
    assert list(plateaus([9, 4, 4, 4, 2, 2, 1, 1, 1])) == [(1, 3, 4)]
    assert list(plateaus([9, 9, 9, 3, 3, 3])) == [(3, 5, 3)]
