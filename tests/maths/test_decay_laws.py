"""Explanations of curves, against loops that test everything and formulas written out."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from attncli.maths.curve_fits.decay_laws_over_layers import (
    POWERS,
    TINY_STEP,
    CurveSteps,
    PiecewiseLaw,
    compute_least_squared_errors_per_order,
    compute_median_per_row,
    find_best_law_per_parameter_count,
    is_power_law_supported,
    iter_piecewise_laws,
    scale_log_steps_by_asinh,
)


def noisy_curves() -> Iterator[tuple[float, ...]]:
    """Powers, factors, changes of law and walks, some with an unknown layer."""
    stream = np.random.default_rng(0)
    for layers in (5, 8, 13, 21):
        layer = np.arange(layers)
        late = np.maximum(layer - layers // 2, 0)
        for curve in (-0.1 * 2.2 ** np.minimum(layer, 8), -0.4 * layer, -0.05 * layer - 0.02 * 3.0 ** np.minimum(late, 9), np.cumsum(stream.normal(0.0, 0.4, layers))):  # fmt: skip
            for noise in (0.0, 0.02, 0.2):
                made = curve + np.cumsum(stream.normal(0.0, noise, layers))
                if noise:
                    made[stream.integers(layers)] = math.nan
                yield tuple(map(float, made))


def all_tested(steps: CurveSteps) -> list[PiecewiseLaw]:
    """The best of each number of constants, when the support of every power is tested first."""
    known = [one for one in iter_piecewise_laws(steps) if all(is_power_law_supported(steps, piece) for piece in one.power_law_pieces)]  # fmt: skip
    counts = sorted({one.constants for one in known})
    return [min((one for one in known if one.constants == count), key=lambda one: one.errors) for count in counts]  # fmt: skip


@pytest.mark.slow
def test_support_tested_where_it_decides_is_support_tested_everywhere() -> None:
    powers = refused = 0
    for curve in noisy_curves():
        steps = CurveSteps.from_curve(curve)
        found = find_best_law_per_parameter_count(steps)
        assert found == all_tested(steps), curve
        powers += any(one.power_law_pieces for one in found)
        refused += any(not is_power_law_supported(steps, piece) for one in iter_piecewise_laws(steps) for piece in one.power_law_pieces)  # fmt: skip
    assert powers > 8
    assert refused > 8


def test_the_scale_of_errors_is_the_area_sine() -> None:
    logarithms = np.array([-700.0, -40.0, -3.0, -1e-9, 0.0, 2.0, 40.0, 298.0, 305.0, 700.0, 5000.0])
    found = scale_log_steps_by_asinh(logarithms)
    for logarithm, value in zip(logarithms[:-1], found[:-1], strict=True):
        assert value == pytest.approx(math.asinh(math.exp(logarithm) / TINY_STEP), rel=1e-14)
    assert found[-1] == pytest.approx(5000.0 - math.log(TINY_STEP) + math.log(2.0), rel=1e-15)


def test_least_errors_are_those_of_a_search_by_golden_section() -> None:
    from scipy.optimize import minimize_scalar

    stream = np.random.default_rng(1)
    layer = np.arange(9)
    taken = 0.03 * 2.4**layer * np.exp(stream.normal(0.0, 0.1, 9))
    shape = np.log(POWERS)[:, None] * layer
    seen = np.array([-math.asinh(step / TINY_STEP) for step in taken])
    found = compute_least_squared_errors_per_order(shape, seen, taken)
    near = np.abs(POWERS - 2.4) < 0.5
    assert near.sum() > 5
    for errors, row in zip(found[near], shape[near], strict=True):

        def squares(start: float, row: np.ndarray = row) -> float:
            return math.fsum((value + math.asinh(math.exp(start + one) / TINY_STEP)) ** 2 for value, one in zip(seen, row, strict=True))  # fmt: skip

        best = minimize_scalar(squares, bounds=(-8.0, 2.0), method="bounded", options={"xatol": 1e-10})  # fmt: skip
        assert errors == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_medians_are_numpys(count: int) -> None:
    rows = np.random.default_rng(count).normal(size=(5, count))
    assert compute_median_per_row(rows).tolist() == np.median(rows, axis=1).tolist()
