"""Metrics of blocks against closed forms, and the laws that all of them obey."""

import math

import mpmath
import numpy as np
import pytest

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    ScaledArray,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics.steps import STEPS

RNG = np.random.default_rng(7)
BEFORE, AFTER = RNG.standard_normal((2, 9, 5)) + 0.3


def dense(name: str, x: np.ndarray, y: np.ndarray) -> float:
    """As the definition says, token by token."""
    cosines = [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in zip(x, y, strict=True)]
    if name == "block_influence":
        return sum(1.0 - c for c in cosines) / len(cosines)
    if name == "angular_distance":
        return sum(math.acos(c) / math.pi for c in cosines) / len(cosines)
    if name == "update_ratio":
        return math.sqrt(float(((y - x) ** 2).sum()) / float((x**2).sum()))
    if name == "spike_turn":
        longest = max(range(len(y)), key=lambda i: float(y[i] @ y[i]))
        return 1.0 - cosines[longest]
    raise KeyError(name)


@pytest.mark.parametrize("name", STEPS.names())
def test_metrics_are_what_their_definitions_say(name: str) -> None:
    expected = dense(name, BEFORE, AFTER)
    for before, after in ((SplitState.from_states(BEFORE), SplitState.from_states(AFTER)), (SplitState.from_states(BEFORE).to_split_form(), SplitState.from_states(AFTER).to_split_form())):  # fmt: skip
        assert STEPS[name](before, after) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", STEPS.names())
def test_what_changes_nothing_has_none(name: str) -> None:
    assert STEPS[name](SplitState.from_states(BEFORE), SplitState.from_states(BEFORE.copy())) == 0.0


@pytest.mark.parametrize("name", STEPS.names())
def test_order_of_tokens_and_a_common_scale_do_not_matter(name: str) -> None:
    order, whole = (
        RNG.permutation(9),
        STEPS[name](SplitState.from_states(BEFORE), SplitState.from_states(AFTER)),
    )
    assert STEPS[name](
        SplitState.from_states(BEFORE[order]), SplitState.from_states(AFTER[order])
    ) == pytest.approx(whole)
    large = [
        SplitState(make_scaled_array(np.zeros(5)), ScaledArray(x / 8.0, 5000), plain=True)
        for x in (BEFORE, AFTER)
    ]
    assert STEPS[name](*large) == pytest.approx(whole)


@pytest.mark.parametrize("name", STEPS.names())
@pytest.mark.parametrize("power", [-3, -3000, -(10**7)])
def test_metrics_are_finite_and_read_only_however_deep(name: str, power: int) -> None:
    varying = BEFORE - BEFORE.mean(axis=0)
    states = [
        SplitState(make_scaled_array(common), ScaledArray(varying / 8.0, power), plain=False)
        for common in (np.ones(5), np.arange(1.0, 6.0))
    ]
    for state in states:
        state.common.mantissa.flags.writeable = state.varying.mantissa.flags.writeable = False
    assert math.isfinite(STEPS[name](*states))


@pytest.mark.parametrize("angle", [1e-9, 1e-3, 1.0, 2.5, math.pi])
def test_tokens_turned_by_an_angle(angle: float) -> None:
    """However small: the cosine of 1e-9 is 1 to the last bit."""
    before = np.array([[1.0, 0.0], [0.0, 2.0]])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    states = SplitState.from_states(before), SplitState.from_states(3.0 * before @ turn)
    with mpmath.workdps(50):
        exact = float(1 - mpmath.cos(mpmath.mpf(angle)))
    assert STEPS["block_influence"](*states) == pytest.approx(exact, rel=1e-6)
    assert STEPS["angular_distance"](*states) == pytest.approx(angle / math.pi, rel=1e-6)


def test_a_zero_token_has_no_direction() -> None:
    empty = BEFORE.copy()
    empty[0] = 0.0
    assert math.isnan(
        STEPS["block_influence"](SplitState.from_states(empty), SplitState.from_states(AFTER))
    )


@pytest.mark.parametrize("name", STEPS.names())
def test_definitions_have_a_unit_and_a_sentence(name: str) -> None:
    assert STEPS.definition(name).unit
    assert len(STEPS.definition(name).definition) > 20
