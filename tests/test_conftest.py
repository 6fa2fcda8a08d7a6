"""The rules that all tests run under: which worker runs a test, after which others, how fast, makes no difference."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def drawn() -> list[object]:
    """What a property test is given."""
    seen: list[object] = []

    @settings(max_examples=200)
    @given(st.integers() | st.floats() | st.text())
    def take(value: object) -> None:
        seen.append(repr(value))

    take()
    return seen


@pytest.mark.slow
def test_property_tests_are_given_the_same_whatever_has_been_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis would draw from the constants of the modules that happen to be there."""
    before = drawn()
    assert drawn() == before
    source = tmp_path / "constants.py"
    source.write_text("\n".join(f"A{n} = {n}, {n}.25, 'text {n}'" for n in range(7000, 7300)))
    module = ModuleType("constants")
    module.__file__ = str(source)
    monkeypatch.setitem(sys.modules, "constants", module)
    assert drawn() == before


def test_slow_draws_fail_no_test() -> None:
    assert HealthCheck.too_slow in settings().suppress_health_check
    assert settings().deadline is None


@pytest.mark.parametrize("time", [1, 2])
def test_models_are_the_same_whatever_has_drawn_before(time: int) -> None:
    assert torch.rand(1).item() == pytest.approx(0.4962566)
