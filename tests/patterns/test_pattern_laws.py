"""Laws that every pattern keeps, and what each one is, said again by a slow loop."""

from collections.abc import Callable
from typing import get_type_hints

import numpy as np
import pytest

from attncli.errors import AttnError, UsageError
from attncli.patterns import PATTERNS, build_pattern

LENGTHS = (1, 2, 5, 33)
UNCAUSAL = ("permutation",)
TIGHT = {"random": 4, "bigbird": 3}
"""Patterns that need at least so many tokens with their default parameters."""


def made(name: str, length: int, causal: bool, seed: int = 0) -> np.ndarray:
    return build_pattern(name, length, np.random.default_rng(seed), causal).toarray()


def cases() -> list[tuple[str, int, bool]]:
    return [
        (name, length, causal)
        for name in PATTERNS.names()
        for length in LENGTHS
        for causal in (False, True)
        if length >= TIGHT.get(name, 1) and not (causal and name in UNCAUSAL)
    ]


@pytest.mark.parametrize(("name", "length", "causal"), cases())
def test_rows_are_distributions_over_visible_keys(name: str, length: int, causal: bool) -> None:
    pattern = build_pattern(name, length, np.random.default_rng(0), causal)
    dense = pattern.toarray()
    assert dense.shape == (length, length)
    assert (pattern.data > 0).all()
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, rtol=1e-14)
    if causal:
        assert not np.triu(dense, 1).any()


@pytest.mark.parametrize("name", PATTERNS.names())
@pytest.mark.parametrize("value", ["0", "1", "999999999999", "9" * 30, "1e-320", "1e308", "nan"])
def test_parameters_of_any_size_give_patterns_or_a_sentence(name: str, value: str) -> None:
    """At once, whatever the size: nothing goes through keys that are not there."""
    given = {"length", "rng", "causal", "return"}
    for parameter in get_type_hints(PATTERNS[name]).keys() - given:
        try:
            pattern = build_pattern(f"{name}:{parameter}={value}", 9, np.random.default_rng(0))
        except AttnError:
            continue
        np.testing.assert_allclose(pattern.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", PATTERNS.names())
def test_same_seed_same_pattern(name: str) -> None:
    assert (made(name, 32, False) == made(name, 32, False)).all()


@pytest.mark.parametrize("name", PATTERNS.names())
def test_summary_is_one_sentence(name: str) -> None:
    assert PATTERNS.summary(name).rstrip().endswith((".", ")."))


@pytest.mark.parametrize("name", [name for name in PATTERNS.names() if name != "strided"])
def test_long_patterns_stay_sparse(name: str) -> None:
    pattern = build_pattern(name, 100_000, np.random.default_rng(0))
    assert pattern.nnz <= 20 * 100_000


def near(i: int, j: int, causal: bool, size: int) -> bool:
    first = i - size + 1 if causal else i - size // 2
    return first <= j < first + size


SUPPORTS: dict[str, tuple[str, Callable[[int, int, bool], bool]]] = {
    "window": ("window:4", lambda i, j, causal: near(i, j, causal, 4)),
    "strided": ("strided:5", lambda i, j, causal: (i - j) % 5 == 0),
    "dilated": (
        "dilated:3:4",
        lambda i, j, causal: any(j == i + 4 * m for m in ((-2, -1, 0) if causal else (-1, 0, 1))),
    ),
    "block": ("block:7", lambda i, j, causal: i // 7 == j // 7),
    "global": ("global:2", lambda i, j, causal: i < 2 or j < 2),
    "previous": ("previous", lambda i, j, causal: j == max(i - 1, 0)),
    "butterfly": ("butterfly", lambda i, j, causal: (i ^ j) == 0 or (i ^ j).bit_count() == 1),
    "logsparse": ("logsparse", lambda i, j, causal: i == j or (i - j) in (1, 2, 4, 8, 16, 32)),
    "tree": (
        "tree:3",
        lambda i, j, causal: (
            i == j or (i > 0 and j == (i - 1) // 3) or (j > 0 and i == (j - 1) // 3)
        ),
    ),
    "longformer": (
        "longformer:3:1",
        lambda i, j, causal: near(i, j, causal, 3) or i == 0 or j == 0,
    ),
}
RANDOM = {"permutation", "random", "induction", "hub", "bigbird"}


def test_nobody_is_forgotten() -> None:
    assert SUPPORTS.keys() | RANDOM == set(PATTERNS.names())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SUPPORTS)
def test_support_is_what_the_definition_says(name: str, causal: bool) -> None:
    text, belongs = SUPPORTS[name]
    dense = made(text, 33, causal)
    for i in range(33):
        wanted = [j for j in range(33) if belongs(i, j, causal) and not (causal and j > i)]
        assert np.flatnonzero(dense[i]).tolist() == (wanted or [i])
        np.testing.assert_allclose(dense[i, wanted], 1.0 / max(len(wanted), 1))


@pytest.mark.parametrize(("length", "k"), [(64, 4), (9, 7), (5, 5), (200, 8)])
def test_random_is_k_regular(length: int, k: int) -> None:
    support = made(f"random:k={k}", length, False) > 0
    assert (support.sum(axis=0) == k).all()
    assert (support.sum(axis=1) == k).all()


@pytest.mark.slow
def test_causal_random_draws_from_visible_keys_evenly() -> None:
    rng = np.random.default_rng(0)
    drawn = sum(
        (build_pattern("random:k=2", 6, rng, True).toarray() > 0).astype(int) for _ in range(3000)
    )
    assert drawn[0].tolist() == [3000, 0, 0, 0, 0, 0]  # row 0 has one key only
    for i in range(1, 6):
        share = 2 / (i + 1)
        error = np.sqrt(3000 * share * (1 - share))
        assert np.abs(drawn[i, : i + 1] - 3000 * share).max() <= 4 * error


def test_weights_of_random() -> None:
    exponential = np.sort(made("random:k=3,weights=exponential", 40, False), axis=1)[:, -3:]
    np.testing.assert_allclose(exponential, np.array([1, 2, 4]) / 7 * np.ones((40, 1)))
    dirichlet = build_pattern("random:k=4,weights=dirichlet", 4000, np.random.default_rng(0)).data
    assert abs(dirichlet.std() - np.sqrt(3 / 80)) < 0.005  # Beta(1, 3): variance 3 / (16 · 5)


def test_permutation_and_hub_and_induction() -> None:
    assert (made("permutation", 50, False).sum(axis=0) == 1).all()
    received = (made("hub:k=3,exponent=1.5", 400, False) > 0).sum(axis=0)
    assert received[0] > 5 * np.median(received)
    rng = np.random.default_rng(3)
    tokens = np.random.default_rng(3).integers(8, size=60)
    pattern = build_pattern("induction:vocabulary=8", 60, rng).toarray()
    for i, key in enumerate(pattern.argmax(axis=1)):
        earlier = [j for j in range(i) if tokens[j] == tokens[i]]
        assert key == (earlier[-1] + 1 if earlier else 0)


def test_sum_is_the_union() -> None:
    parts = [made(text, 20, False) > 0 for text in ("global:2", "window:3")]
    assert ((made("global:2+window:3", 20, False) > 0) == (parts[0] | parts[1])).all()


@pytest.mark.parametrize(
    ("text", "length", "says"),
    [
        ("windw:3", 8, "did you mean 'window'"),
        ("window:0", 8, "size must be at least 1"),
        ("window:x", 8, "whole number"),
        ("window:3:4:5", 8, "takes size"),
        ("random:k=9", 8, "9 keys per query, but there are only 8"),
        ("random:k=2,weights=wide", 8, "dirichlet"),
        ("global:9", 8, "9 global tokens"),
        ("window+", 8, "empty part"),
        ("window", 0, "at least 1 token"),
        ("window", None, "`length`"),
        ("hub:exponent=nan", 8, "exponent"),
    ],
)
def test_bad_patterns_are_refused_in_one_sentence(text: str, length: int | None, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        build_pattern(text, length, np.random.default_rng(0))
    assert "\n" not in str(refused.value)


def test_the_only_causal_permutation() -> None:
    with pytest.raises(UsageError, match="identity"):
        made("permutation", 8, True)
