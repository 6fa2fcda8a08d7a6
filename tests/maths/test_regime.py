"""Curves made from each law, with noise, and what is said of them."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from attncli.maths.curve_fits.decay_laws_over_layers import fit_piecewise_law
from attncli.maths.curve_fits.rank_collapse_regime import (
    describe_collapse_regime,
    find_order_of_double_exponential,
)

CUBIC = [-0.5 * 3.0**layer for layer in range(8)]
LINEAR = [-1.5 * layer for layer in range(8)]
FLAT = [-0.3 - 0.01 * layer for layer in range(8)]

LEVEL = 3
"""Layers at the end that a floor takes."""


def steps_of(law: str, layers: int) -> np.ndarray:
    """Decades that each layer takes away."""
    layer = np.arange(layers, dtype=float)
    return {
        "no collapse": np.full(layers, 0.0),
        "constant factor": np.full(layers, 0.6),
        "quadratic": 0.3 * 2.0**layer,
        "cubic": 0.3 * 3.0**layer,
        "quartic": 0.3 * 4.0**layer,
        "cubic, then a floor": np.where(layer < layers - LEVEL, 0.3 * 3.0**layer, 0.0),
        "constant factor, then a floor": np.where(layer < layers - LEVEL, 2.0, 0.0),
        "falls in the last two layers": np.where(layer < layers - 2, 0.0, 0.5 + layer - layers + 2),
        "slow decay": np.full(layers, 0.75 / layers),
        "levels off": np.where(layer < layers // 2, 1.2 / layers, 0.0),
        "grows": np.full(layers, -0.1),
        "falls in the last layer": np.where(layer < layers - 1, 0.0, 1.75),
    }[law]


LAWS = {
    "no collapse": lambda text: text == "does not collapse: tokens stay apart with the skip",
    "constant factor": lambda text: text.startswith("geometric decay") and "then" not in text and "would" not in text,
    "quadratic": lambda text: text == "quadratic: doubly exponential",
    "cubic": lambda text: text == "cubic: doubly exponential",
    "quartic": lambda text: text == "quartic: doubly exponential",
    "cubic, then a floor": lambda text: text.startswith("cubic") and "up to layer" in text,
    "constant factor, then a floor": lambda text: text.startswith("geometric decay") and re.search(r"levels off near \S+e-", text),
    "falls in the last two layers": lambda text: "falls in the last two layers" in text,
    "slow decay": lambda text: text.startswith(("slow geometric decay: ×0.8", "geometric decay: ×0.7")) and "would reach" in text,
    "levels off": lambda text: re.search(r"levels off near 0\.[12]\d*$", text),
    "grows": lambda text: text.startswith("grows"),
    "falls in the last layer": lambda text: "falls in the last layer" in text,
}  # fmt: skip
"""Which of them a sentence tells of."""

POWERS = ("quadratic", "cubic", "quartic", "cubic, then a floor")


def noisy_curve(law: str, layers: int, stream: np.random.Generator) -> list[float]:
    """Layers differ from their law by a tenth of what they do, and by a fiftieth of a decade whatever they do."""
    taken = steps_of(law, layers)
    taken = taken * np.exp(0.1 * stream.standard_normal(layers))
    taken = taken + 0.02 * stream.standard_normal(layers)
    return [-0.1, *(-0.1 - taken.cumsum()).tolist()]


def told_as(text: str) -> str:
    found = [law for law, tells in LAWS.items() if tells(text)]
    return found[0] if len(found) == 1 else "something else"


@pytest.mark.slow
@pytest.mark.parametrize("layers", [8, 12])
def test_curves_made_from_a_law_with_noise_are_told_as_that_law(layers: int) -> None:
    stream = np.random.default_rng(layers)
    table = {
        law: Counter(told_as(describe_collapse_regime(noisy_curve(law, layers, stream), "the skip", "")) for _ in range(8))
        for law in LAWS
    }  # fmt: skip
    for law in table:
        assert table[law][law] >= 7, (law, table[law])
    for law in table.keys() - set(POWERS):  # a power is never seen where there is none
        assert not set(POWERS) & table[law].keys(), (law, table[law])


@pytest.mark.slow
@pytest.mark.parametrize("order", [2.0, 3.0, 4.0])
def test_the_order_of_a_noisy_power_is_found(order: float) -> None:
    stream = np.random.default_rng(3)
    for _ in range(20):
        steps = 0.3 * order ** np.arange(8) * np.exp(0.1 * stream.standard_normal(8))
        found = find_order_of_double_exponential([0.0, *(-steps.cumsum()).tolist()])
        assert found == pytest.approx(order, abs=0.5)


def test_a_fall_in_the_last_layers_is_no_power() -> None:
    """As measured on a trained ELECTRA: eleven layers of nothing, then two that fall."""
    curve = [-0.163, -0.150, -0.156, -0.15, -0.14, -0.145, -0.13, -0.125, -0.12, -0.115, -0.110, -0.312, -0.861]  # fmt: skip
    assert describe_collapse_regime(curve, "the skip", "") == (
        "does not collapse: tokens stay apart with the skip, then r falls in the last two layers"
    )
    assert find_order_of_double_exponential(curve) is None


@pytest.mark.parametrize("shift", [0.0, 0.02, -0.02])
def test_a_trained_decoder_that_falls_in_its_last_two_layers_does_not_collapse(
    shift: float,
) -> None:
    """As measured on a trained SmolLM2 at 48 tokens: steps of -.1 in layers 2 and 10, and two at the end."""
    curve = np.concatenate([np.linspace(0.11, 0.06, 29), [-0.146, -0.3035]])
    curve[2:] += shift - 0.1
    curve[3:] += 0.1
    curve[10] -= 0.12
    assert describe_collapse_regime(curve.tolist(), "the skip", "") == (
        "does not collapse: tokens stay apart with the skip, then r falls in the last two layers"
    )
    assert find_order_of_double_exponential(curve.tolist()) is None


def test_one_drop_is_no_law() -> None:
    """As measured on a trained ELECTRA without its MLPs' skips: flat for eleven layers, then down to -1.91."""
    curve = [-0.16, -0.15, -0.156, -0.15, -0.14, -0.145, -0.13, -0.125, -0.12, -0.115, -0.11, -0.31, -1.91]  # fmt: skip
    assert find_order_of_double_exponential(curve) is None
    assert describe_collapse_regime(curve, "the skip", "").startswith("does not collapse")
    assert describe_collapse_regime(curve, "the skip", "").endswith(
        "then r falls in the last two layers, to 0.012"
    )


def test_local_orders_that_differ_are_no_power() -> None:
    """As measured on a RoFormer: orders of 1.9, .9 and 2.9, whose mean is no law."""
    steps = np.cumprod([0.2, 1.9, 0.9, 2.9])
    curve = [-0.1, *(-0.1 - np.cumsum(steps)).tolist()]
    assert find_order_of_double_exponential(curve) is None
    assert "doubly" not in describe_collapse_regime(curve, "", "positions in the attention")


def test_no_power_above_one_or_of_less_than_a_decade() -> None:
    above = [5.0, *(5.0 - np.cumsum(0.01 * 3.0 ** np.arange(6)))]
    small = [-0.3 * value / CUBIC[4] for value in CUBIC[:5]]
    assert find_order_of_double_exponential(above) is None
    assert find_order_of_double_exponential(small) is None
    assert find_order_of_double_exponential([40.0 * value for value in small]) == pytest.approx(
        3.0, abs=0.05
    )


def test_a_decay_is_told_with_its_interval_where_it_is_clear() -> None:
    """A factor below 1 is a collapse, however slow; what may be 1 or levels off is none."""
    assert describe_collapse_regime([-0.07 * n for n in range(13)], "the skip", "") == (
        "slow geometric decay: ×0.85 a layer (0.85 to 0.85), would reach r = 1e-3 at layer 43"
    )
    assert describe_collapse_regime([-0.12 * n for n in range(49)], "the skip", "the skip") == (
        "geometric decay: ×0.76 a layer (the skip)"
    )
    floor = [*(-0.15 * n for n in range(5)), *[-0.61, -0.6, -0.61, -0.6, -0.61]]
    assert describe_collapse_regime(floor, "the skip", "").endswith(
        "up to layer 4, then r levels off near 0.25"
    )


def test_no_order_is_told_from_three_points() -> None:
    for curve in ([-0.1, -1.0, -4.0], [-0.1, -1.0, -4.0, math.nan], [-0.1, -1.0, -4.0, -math.inf]):
        assert find_order_of_double_exponential(curve) is None
        assert "exponential" not in describe_collapse_regime(curve, "", "")
    for late in ([-0.1] * 6 + [-0.3, -0.9], [-0.1] * 9 + [-0.12, -0.4, -1.3]):
        assert find_order_of_double_exponential([*late]) is None


def test_the_order_is_that_of_the_layers_that_follow_it() -> None:
    """Steps of .02, .15, 1.1 (a start-up), then powers of three alone."""
    steps = [0.02, 0.15, 1.1, 3.3, 9.9, 29.7, 89.1]
    curve = [0.0, *(-np.cumsum(steps)).tolist()]
    assert find_order_of_double_exponential(curve) == pytest.approx(3.0, abs=0.05)


def test_a_law_that_begins_late_or_ends_early_says_where() -> None:
    late = [-0.1] * 6 + [-0.1 - 0.5 * 3.0**n for n in range(6)]
    assert describe_collapse_regime(late, "the MLP", "") == (
        "tokens stay apart with the MLP up to layer 5, then cubic: doubly exponential"
    )
    floor = [-2.0 * layer for layer in range(6)] + [-10.0] * 6
    assert describe_collapse_regime(floor, "", "causal mask") == (
        "geometric decay: ×0.01 a layer (causal mask) up to layer 5, then r levels off near 1e-10"
    )


def test_single_layers_are_told_by_their_number() -> None:
    flat = [-0.1] * 12
    assert describe_collapse_regime(
        [*flat[:6], *(value - 0.7 for value in flat[6:])], "the skip", ""
    ) == ("does not collapse: tokens stay apart with the skip, but r falls in layer 6")
    assert describe_collapse_regime([0.5, *flat], "the skip and the MLP", "") == (
        "does not collapse: tokens stay apart with the skip and the MLP, though r falls in the first layer"
    )
    assert describe_collapse_regime([*flat, 0.4], "the skip", "").endswith(
        "then r rises in the last layer"
    )


@pytest.mark.parametrize("lost", [[3], [3, 4], [1, 5], [6, 7], [7]])
def test_values_that_are_not_known_are_left_out(lost: list[int]) -> None:
    """In the middle the law goes on; at the end it is told up to there, and why no further."""
    curve = [math.nan if layer in lost else value for layer, value in enumerate(CUBIC)]
    text = describe_collapse_regime(curve, "", "", "lost in rounding")
    assert text.startswith("cubic: doubly exponential")
    assert text.endswith(f"not resolved from layer {lost[0]} on: lost in rounding") == (7 in lost)
    assert find_order_of_double_exponential(curve) == pytest.approx(3.0, abs=0.05)


def test_nothing_is_said_of_curves_without_numbers() -> None:
    for length in range(1, 9):
        assert describe_collapse_regime([math.nan] * length, "", "").startswith(
            "not resolved from layer 0 on"
        )
    assert (
        describe_collapse_regime([-1.0, math.nan, -1.1, -1.2], "", "") == "too few layers to tell"
    )


def test_something_is_said_of_every_curve() -> None:
    """Whatever is missing or infinite, and however it moves; no law where there are not four numbers."""
    stream = np.random.default_rng(1)
    for _ in range(150):
        curve = stream.standard_normal(
            int(stream.integers(1, 10))
        ).cumsum() * 10.0 ** stream.uniform(-4, 6)
        lost = stream.random(len(curve)) < stream.choice([0.0, 0.3])
        curve = np.where(lost, stream.choice([math.nan, -math.inf], len(curve)), curve)
        text, order = (
            describe_collapse_regime(curve.tolist(), "the skip", "mask"),
            find_order_of_double_exponential(curve.tolist()),
        )
        assert text
        assert (order is not None) == ("doubly exponential" in text)
        assert np.isfinite(curve).sum() >= 4 or "×" not in text


@pytest.mark.parametrize("make", [lambda n: -0.3 * n, lambda n: -0.1, lambda n: -(1.2**n)])
def test_curves_of_any_length_are_explained(make: Callable[[int], float]) -> None:
    for length in (4, 5, 31, 300):
        curve = tuple(make(n) for n in range(length))
        pieces = fit_piecewise_law(curve).pieces
        assert (pieces[0].first, pieces[-1].last) == (0, length - 1)
        assert all(one.last == other.first for one, other in itertools.pairwise(pieces))


def test_a_curve_that_also_rises_is_uneven() -> None:
    """As measured on a trained GPT-2 without its skips: single steps of any ratio, but no law."""
    noisy = [-0.006, -0.244, -0.331, -0.143, -0.396, -0.874, -0.904, -0.677, -1.316]
    assert (
        describe_collapse_regime(noisy, "", "causal mask") == "r falls unevenly from 0.99 to 0.048"
    )


@pytest.mark.parametrize(
    ("curve", "support", "drag", "text"),
    [
        (CUBIC, "", "", "cubic: doubly exponential"),
        ([-(2.0**layer) for layer in range(8)], "", "", "quadratic: doubly exponential"),
        ([-(2.5**layer) for layer in range(8)], "", "", "order 2.5: doubly exponential"),
        ([-0.022, -0.148, -1.073, -5.004, -16.772], "", "", "order 3.0 to 7.3: doubly exponential"),
       (LINEAR, "", "causal mask", "geometric decay: ×0.032 a layer (causal mask)"),
        (FLAT, "the skip", "", "r falls slowly from 0.5 to 0.43, ×0.98 a layer (0.98 to 0.98)"),
        ([-0.3] * 8, "the skip", "", "does not collapse: tokens stay apart with the skip"),
        ([-0.3] * 8, "", "", "nearly flat"),
        ([-1.5, *[-3.0] * 8], "the skip", "", "r falls in the first layer, to 0.001, then r stays near 0.001"),
        ([0.1 * layer for layer in range(8)], "", "", "grows: ×1.3 a layer"),
        ([-1.0, -2.0], "", "", "too few layers to tell"),
        ([-1.0, -2.0, -math.inf], "", "", "rank 1 exactly, or beyond 10^-(10^308), from layer 2 on"),
        ([-1.0, -2.0, math.nan], "", "", "not resolved from layer 2 on: tokens coincide to the last bit"),
        ([*CUBIC, -math.inf], "", "", "cubic: doubly exponential; rank 1 exactly, or beyond 10^-(10^308), from layer 8 on"),
    ],
)  # fmt: skip
def test_every_regime_has_its_words(curve: list[float], support: str, drag: str, text: str) -> None:
    assert describe_collapse_regime(curve, support, drag) == text
