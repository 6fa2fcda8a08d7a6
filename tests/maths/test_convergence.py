import pytest

from attncli.maths.curve_fits.convergence_rates import (
    compute_convergence_orders,
    estimate_late_convergence_order,
)

CUBIC = [-0.5 * 3.0**layer for layer in range(8)]
LINEAR = [-1.5 * layer for layer in range(8)]
FLAT = [-0.3 - 0.01 * layer for layer in range(8)]


def test_a_cubic_law_has_order_three_at_every_layer() -> None:
    assert compute_convergence_orders(CUBIC) == [None, None, *[pytest.approx(3.0)] * 6]
    assert estimate_late_convergence_order(CUBIC) == pytest.approx(3.0)


def test_a_constant_factor_has_order_one() -> None:
    assert estimate_late_convergence_order(LINEAR) == pytest.approx(1.0)


def test_a_curve_that_also_rises_has_no_order() -> None:
    """As measured on a trained GPT-2 without its skips: single steps of any ratio, but no law."""
    noisy = [-0.006, -0.244, -0.331, -0.143, -0.396, -0.874, -0.904, -0.677, -1.316]
    assert estimate_late_convergence_order(noisy) is None
    uneven = [-0.01, -0.08, -0.22, -0.33, -0.44, -0.82, -0.97]  # one long step among short ones
    assert estimate_late_convergence_order(uneven) == pytest.approx(1.0, abs=0.5)


def test_one_order_is_none() -> None:
    """Three points make one, whatever they are; four that agree make two."""
    assert estimate_late_convergence_order([0.0, -1.0, -4.0]) is None
    assert estimate_late_convergence_order([0.0, 0.0, 0.0, -1.0, -4.0]) is None
    assert estimate_late_convergence_order([0.0, -1.0, -4.0, -13.0]) == pytest.approx(3.0)


def test_flat_curves_have_no_order() -> None:
    assert estimate_late_convergence_order(FLAT) is None
    assert compute_convergence_orders([-1.0]) == [None]
