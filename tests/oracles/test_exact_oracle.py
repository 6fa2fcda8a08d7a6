"""The arbitrary-precision passes: the same function as the float64 oracles, and right where float64 sees nothing."""

from types import SimpleNamespace
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from oracles import exact_bert, network
from oracles.forwards import ORACLES
from oracles.forwards.common import EVERYTHING
from oracles.forwards.library import worst_difference
from oracles.forwards.tiny_models import FOR_ARBITRARY_PRECISION

SAN = SimpleNamespace(**vars(EVERYTHING) | {"skip": False, "mlp": False})
SAN_MLP = SimpleNamespace(**vars(EVERYTHING) | {"skip": False})
SWITCHES = {
    "transformer": EVERYTHING,
    "SAN": SAN,
    "SAN+MLP": SAN_MLP,
    "SAN+MLP-noskip": SimpleNamespace(**vars(SAN_MLP) | {"mlp_skip": False}),
    "SAN with the MLP's norm": SimpleNamespace(**vars(SAN) | {"mlp_norm": True}),
    "no norms": SimpleNamespace(**vars(EVERYTHING) | {"norms": False}),
}


def by_subtraction(states: list[Any]) -> np.ndarray[Any, Any]:
    """log10 r of float64 states; good above about 1e-10."""
    number = network.numbers(None)
    return np.array([network.log10_residual(x.tolist(), number) for x in states])


@pytest.mark.parametrize("variant", SWITCHES)
@pytest.mark.parametrize("name", FOR_ARBITRARY_PRECISION)
def test_in_floats_it_is_the_float64_oracle(name: str, variant: str) -> None:
    switches = SWITCHES[variant]
    model, inputs = FOR_ARBITRARY_PRECISION[name]()
    expected = ORACLES[name].forward(model, inputs, switches)
    found = [x.astype(np.float64) for x in exact_bert.states(model, inputs, switches, None)]
    assert worst_difference({"layers": found}, expected) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["transformer", "SAN+MLP"])
@pytest.mark.parametrize("name", FOR_ARBITRARY_PRECISION)
def test_equals_subtraction_in_float64_above_1e_10(name: str, variant: str) -> None:
    switches = SWITCHES[variant]
    model, inputs = FOR_ARBITRARY_PRECISION[name]()
    found = np.array(exact_bert.log10_residuals(model, inputs, switches))
    subtracted = by_subtraction(ORACLES[name].forward(model, inputs, switches)["layers"])
    resolved = found > -10
    assert resolved.sum() >= 4
    assert np.abs(found - subtracted)[resolved].max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "vit"])
def test_unmasked_attention_falls_below_the_range_of_float64_at_order_3(name: str) -> None:
    """log r triples per layer and moves by the few decades that the layer's own weights are worth."""
    model, inputs = FOR_ARBITRARY_PRECISION[name]()
    found = exact_bert.log10_residuals(model, inputs, SAN_MLP)
    steps = np.diff(found)
    assert found[-1] < -308
    assert steps[-1] / steps[-2] == pytest.approx(3, abs=0.05)


@pytest.mark.slow
def test_causal_attention_falls_by_a_constant_factor() -> None:
    model, inputs = FOR_ARBITRARY_PRECISION["gpt2"]()
    found = exact_bert.log10_residuals(model, inputs, SAN)
    assert found[-1] < -40
    assert (found[60] - found[40]) / (found[40] - found[20]) == pytest.approx(1, abs=0.3)


@pytest.mark.slow
def test_more_digits_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = FOR_ARBITRARY_PRECISION["bert"]()
    found = exact_bert.log10_residuals(model, inputs, SAN)
    monkeypatch.setattr(exact_bert, "DIGITS", (1300,))
    assert exact_bert.log10_residuals(model, inputs, SAN) == pytest.approx(found, rel=1e-14)


@pytest.mark.slow
def test_too_few_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = FOR_ARBITRARY_PRECISION["bert"]()
    monkeypatch.setattr(exact_bert, "DIGITS", (60, 100))
    with pytest.raises(ValueError, match="use fewer layers"):
        exact_bert.log10_residuals(model, inputs, SAN_MLP)


def test_gelu_has_all_the_digits() -> None:
    """An error function of 15 digits would give every token the same value, and a residual wrong by a plausible factor."""
    digits = 200
    number = network.numbers(digits)
    gelu = exact_bert.gelu(number)
    with mpmath.workdps(digits):
        for x in (-1.7, 0.3, 2.5):
            expected = x * mpmath.ncdf(x)
            found = mpmath.mpf(f"{gelu(number.convert(x)):.{digits}e}")
            assert abs(found - expected) < mpmath.mpf(10) ** (10 - digits)
