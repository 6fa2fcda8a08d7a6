import math

import pytest

from attncli.maths.convergence import late_order, orders, regime

CUBIC = [-0.5 * 3.0**layer for layer in range(8)]
LINEAR = [-1.5 * layer for layer in range(8)]
FLAT = [-0.3 - 0.01 * layer for layer in range(8)]


def test_a_cubic_law_has_order_three_at_every_layer() -> None:
    assert orders(CUBIC) == [None, None, *[pytest.approx(3.0)] * 6]
    assert late_order(CUBIC) == pytest.approx(3.0)


def test_a_constant_factor_has_order_one() -> None:
    assert late_order(LINEAR) == pytest.approx(1.0)


def test_a_curve_that_also_rises_has_no_order() -> None:
    """As measured on a trained GPT-2 without its skips: single steps of any ratio, but no law."""
    noisy = [-0.006, -0.244, -0.331, -0.143, -0.396, -0.874, -0.904, -0.677, -1.316]
    assert late_order(noisy) is None
    assert regime(noisy, "", "causal mask").startswith("linear")
    uneven = [-0.01, -0.08, -0.22, -0.33, -0.44, -0.82, -0.97]  # one long step among short ones
    assert late_order(uneven) == pytest.approx(1.0, abs=0.5)


def test_flat_curves_have_no_order() -> None:
    assert late_order(FLAT) is None
    assert orders([-1.0]) == [None]


@pytest.mark.parametrize(
    ("curve", "support", "drag", "text"),
    [
        (CUBIC, "", "", "cubic: doubly exponential"),
        ([-(2.0**layer) for layer in range(8)], "", "", "quadratic: doubly exponential"),
        (LINEAR, "", "causal mask", "linear: ×0.032 a layer (causal mask)"),
        (FLAT, "the skip", "", "held up by the skip: ×0.98 a layer"),
        (FLAT, "", "", "nearly flat: ×0.98 a layer"),
        ([0.1 * layer for layer in range(8)], "", "", "grows: ×1.3 a layer"),
        ([-1.0, -2.0], "", "", "too few layers to tell"),
        ([-1.0, -2.0, -math.inf], "", "", "rank 1 exactly, or beyond 10^-(10^308), from layer 2 on"),
        ([-1.0, -2.0, math.nan], "", "", "not resolved from layer 2 on: tokens coincide to the last bit"),
    ],
)  # fmt: skip
def test_every_regime_has_its_words(curve: list[float], support: str, drag: str, text: str) -> None:
    assert regime(curve, support, drag) == text
