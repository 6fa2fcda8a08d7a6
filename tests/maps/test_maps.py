"""Synthetic maps: laws over the registry, and the closed forms their docstrings state."""

import math
from typing import get_type_hints

import numpy as np
import pytest

from attncli.errors import UsageError
from attncli.maps import MAPS
from attncli.registry import call_entry_from_text


def made(text: str, tokens: int = 64, seed: int = 0) -> np.ndarray:
    result: np.ndarray = call_entry_from_text(
        MAPS, text, tokens=tokens, rng=np.random.default_rng(seed)
    )
    return result


CAUSAL = ["uniform:causal=true", "iid:2:true", "sink:0.5:true", "window:5", "dirichlet:0.1:true"]
EVERY = [*MAPS.names(), *CAUSAL, "window:size=3,causal=false", "sink:0.3", "block:7", "induction:5"]


@pytest.mark.parametrize("text", EVERY)
@pytest.mark.parametrize("tokens", [1, 2, 37])
def test_rows_are_distributions(text: str, tokens: int) -> None:
    attention = made(text, tokens)
    assert attention.shape == (tokens, tokens)
    assert (attention >= 0.0).all()
    np.testing.assert_allclose(attention.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("text", [*CAUSAL, "previous_token", "self_token", "induction"])
def test_causal_maps_look_at_no_later_key(text: str) -> None:
    assert np.triu(made(text), 1).max() == 0.0


@pytest.mark.parametrize("text", EVERY)
def test_the_seed_decides(text: str) -> None:
    np.testing.assert_array_equal(made(text, seed=5), made(text, seed=5))


@pytest.mark.parametrize("name", MAPS.names())
@pytest.mark.parametrize("value", ["0", "1", "999999999999", "9" * 30, "1e-320", "1e99", "1e308", "nan", "inf"])  # fmt: skip
def test_parameters_of_any_size_give_maps_or_a_sentence(name: str, value: str) -> None:
    for parameter in get_type_hints(MAPS[name]).keys() - {"tokens", "rng", "return"}:
        try:
            attention = made(f"{name}:{parameter}={value}", 9)
        except UsageError:
            continue
        np.testing.assert_allclose(attention.sum(axis=1), 1.0, rtol=1e-12)


def test_uniform_causal_closed_forms() -> None:
    """n = 64: mean entropy 3.2057531, s1 1.597855, s2 1.013719, share on token 0 H_64/64."""
    attention = made("uniform:causal=true")
    logs = np.log(attention, out=np.zeros_like(attention), where=attention > 0)
    assert -(attention * logs).sum(axis=1).mean() == pytest.approx(3.2057531, abs=1e-7)
    s = np.linalg.svd(attention, compute_uv=False)
    assert s[:2] == pytest.approx([1.597855, 1.013719], abs=1e-6)
    assert (s**2).sum() / s[0] ** 2 == pytest.approx(1.858062, abs=1e-6)
    assert attention[:, 0].mean() == pytest.approx(0.0741233, abs=1e-7)


def test_a_pure_sink_has_one_singular_value_of_root_n() -> None:
    s = np.linalg.svd(made("sink"), compute_uv=False)
    assert s[0] == pytest.approx(8.0)
    assert s[1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_iid_maps_have_the_stable_rank_and_entropy_of_their_docstring() -> None:
    sigma, tokens = 1.2, 1024
    attention = made(f"iid:sigma={sigma}", tokens)
    s1 = np.linalg.norm(attention, 2)
    rank = np.linalg.norm(attention) ** 2 / s1**2
    assert rank == pytest.approx(math.exp(sigma**2), rel=0.03)
    entropy = -(attention * np.log(attention)).sum(axis=1).mean()
    assert entropy == pytest.approx(math.log(tokens) - sigma**2 / 2.0, abs=0.01)


def test_hand_made_heads() -> None:
    assert made("previous_token", 4).argmax(axis=1).tolist() == [0, 0, 1, 2]
    assert made("induction:3", 6).argmax(axis=1).tolist() == [0, 0, 0, 1, 2, 3]
    assert np.linalg.matrix_rank(made("block:16")) == 4
    np.testing.assert_allclose(np.linalg.svd(made("permutation"), compute_uv=False), 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "iid:-1",
        "iid:nan",
        "iid:1e308",
        "sink:1.5",
        "window:0",
        "block:0",
        "dirichlet:0",
        "induction:-2",
    ],
)
def test_parameters_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must"):
        made(text)
