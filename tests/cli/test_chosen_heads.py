"""The headline says how much of the model was looked at, wherever layers and heads can be chosen."""

from pathlib import Path

import pytest
from commands import attn
from family_models import saved

MODEL = ("inspect-model", "random:gpt2?layers=5&heads=4&width=16", "--random-tokens", "9", "-q")


def headline_of(*arguments: str) -> str:
    outcome = attn(*arguments)
    assert outcome.code == 0, outcome.err
    return outcome.out.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "layers", "heads"),
    [
        ((), "5 attention layers, 9 tokens", "; 20 heads: "),
        (("--heads", "3.1,2.0"), ": 2 of 5 attention layers, 9 tokens", "; 2 of 20 heads: "),
        (("--layers", "1-3"), ": 3 of 5 attention layers, 9 tokens", "; 12 of 20 heads: "),
        (("--heads", "2"), ": 5 attention layers, 9 tokens", "; 5 of 20 heads: "),
        (("--layers", "0,4", "--heads", "0,3"), ": 2 of 5 attention layers, 9 tokens", "; 4 of 20 heads: "),
        (("--layers", "0-4", "--heads", "0-3"), ": 5 attention layers, 9 tokens", "; 20 heads: "),
        (("--heads", "3.1", "--metric", "entropy"), ": 1 of 5 attention layers, 9 tokens", "; 1 of 20 heads; "),
    ],
)  # fmt: skip
def test_a_part_of_a_model_is_not_called_the_model(
    chosen: tuple[str, ...], layers: str, heads: str
) -> None:
    said = headline_of(*MODEL, *chosen)
    assert layers in said
    assert heads in said


@pytest.mark.slow
def test_a_part_of_a_file_of_maps(tmp_path: Path) -> None:
    file = str(tmp_path / "maps.safetensors")
    attn(*MODEL, "--save-maps", file)
    assert "5 attention layers, 9 tokens; 20 heads: " in headline_of("inspect-maps", file)
    some = headline_of("inspect-maps", file, "--heads", "3.1,2.0")
    assert "2 of 5 attention layers, 9 tokens; 2 of 20 heads" in some


def test_a_part_of_the_weights(tmp_path: Path) -> None:
    saved("bert", tmp_path)
    whole = headline_of("inspect-weights", str(tmp_path))
    some = headline_of("inspect-weights", str(tmp_path), "--layers", "0", "--heads", "1")
    total = whole.split(" heads")[0].split()[-1]
    assert whole.startswith(f"bert, {total} heads")
    assert some.startswith(f"bert, 1 of {total} heads")
