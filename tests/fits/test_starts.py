"""Patterns with an order come out at their true width, and search keeps what it promises about logits and widths."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from attncli.commands.approximate.fixed_attention_module.fit_patterns_at_common_width import (
    fit_patterns_by_all_methods,
)
from attncli.fits import Fit, FitRequest, _width_search, measure_fit
from attncli.fits._fitting_method_registry import list_methods_at_fixed_width
from attncli.fits._key_initialisation import (
    initialise_queries_and_keys_by_svd,
    order_keys_by_laplacian_eigenvector,
)
from attncli.fits._width_search import (
    find_fit_with_smallest_logits,
    find_narrowest_fit,
    find_smallest_width_of_method,
    run_fitting_method,
    try_fit_at_width,
)
from attncli.patterns import build_pattern
from attncli.registry import list_entry_names


def pattern(text: str, length: int, causal: bool = False, seed: int = 0) -> csr_array:
    return build_pattern(text, length, np.random.default_rng(seed), causal)


def upper(length: int) -> csr_array:
    made = np.triu(np.ones((length, length)))
    return csr_array(made / made.sum(axis=1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "length", "causal", "d", "logits"),
    [
        ("previous", 64, True, 1, 20.0),
        ("window:3", 64, False, 3, 700.0),
        ("window:3", 64, True, 3, 30.0),
        ("strided:8", 64, False, 2, 30.0),
    ],
)
def test_the_true_width_by_default(
    text: str, length: int, causal: bool, d: int, logits: float
) -> None:
    request = FitRequest(d=1, causal=causal, dtype="float32")
    found = find_narrowest_fit(pattern(text, length, causal), request, [0, 1], 512)
    assert found.met
    assert found.fit is not None
    assert found.fit.d == d
    assert found.largest_absolute_logit < logits


def test_nested_rows_need_one_number_a_key() -> None:
    request = FitRequest(d=1, total_variation=0.999, dtype="float32")
    found = find_narrowest_fit(upper(16), request, [0], 512)
    assert (found.method, found.met) == ("line", True)


@pytest.mark.slow
def test_random_supports_of_eight_keys_at_ten() -> None:
    request = FitRequest(d=1, total_variation=0.05, dtype="float32")
    found = find_narrowest_fit(pattern("random:k=8", 128, seed=0), request, [0, 1], 64)
    assert found.fit is not None
    assert found.fit.d <= 10


def test_a_hidden_order_is_found() -> None:
    """Windows along a random order of the tokens: the Laplacian's second eigenvector has it, up to its direction."""
    hidden = np.random.default_rng(3).permutation(40)
    shuffled = csr_array(pattern("window:3", 40).toarray()[np.ix_(hidden, hidden)])
    rank = order_keys_by_laplacian_eigenvector(shuffled)
    assert np.array_equal(rank, hidden) or np.array_equal(rank, 39 - hidden)
    assert try_fit_at_width("learned", shuffled, FitRequest(d=3, dtype="float32"), [0]).met


@pytest.mark.parametrize("causal", [False, True])
def test_the_start_is_the_spectrum_of_the_centred_matrix(causal: bool) -> None:
    target = pattern("random:k=2,weights=dirichlet", 20, causal)
    request = FitRequest(d=20, causal=causal)
    queries, keys = initialise_queries_and_keys_by_svd(
        target, request, np.random.default_rng(0), 1e-12
    )
    dense = np.zeros((20, 20))
    for i in range(20):
        own = slice(target.indptr[i], target.indptr[i + 1])
        weights = np.log(target.data[own])
        dense[i, target.indices[own]] = weights - weights.min() + 6.0
    seen = np.tril(np.ones((20, 20))) if causal else np.ones((20, 20))
    dense -= seen * (dense.sum(axis=1) / seen.sum(axis=1))[:, None]
    np.testing.assert_allclose(queries @ keys.T, dense, atol=1e-6)


def test_at_one_width_the_smallest_logits_count() -> None:
    target = pattern("permutation", 96)
    request = FitRequest(d=4, dtype="float32")
    found = find_fit_with_smallest_logits(target, request, [0])
    each = [
        try_fit_at_width(method, target, request, [0]) for method in list_methods_at_fixed_width()
    ]
    assert found.largest_absolute_logit == min(
        attempt.largest_absolute_logit for attempt in each if attempt.met
    )
    assert (
        found.largest_absolute_logit
        < 0.1 * each[list_methods_at_fixed_width().index("cyclic")].largest_absolute_logit
    )


def test_at_one_width_others_are_tried_only_where_those_with_the_smallest_logits_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys made for the pattern first; keys on a curve or spread over a sphere cost more than they serve."""
    tried: list[str] = []

    def counted(method: str, *rest: Any) -> Fit:
        tried.append(method)
        return run_fitting_method(method, *rest)

    monkeypatch.setattr(_width_search, "run_fitting_method", counted)
    target = pattern("random:k=4,weights=dirichlet", 64)
    wide, narrow = (FitRequest(d=d, dtype="float32", effort=1) for d in (12, 2))
    assert find_fit_with_smallest_logits(target, wide, [0]).method == "learned"
    assert tried == ["line", "learned"]
    tried.clear()
    assert not find_fit_with_smallest_logits(target, narrow, [0]).met
    assert set(tried) > {*list_methods_at_fixed_width()}


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("text", list_entry_names("attncli.patterns"))
def test_at_one_width_auto_serves_whatever_a_method_of_its_own_serves(
    text: str, causal: bool
) -> None:
    """With logits no larger than the first module's that was learned; at widths that are taken by turns."""
    if (text, causal) == ("permutation", True):
        pytest.skip("there is no such pattern")
    target = pattern(text, 16, causal)
    turn = list_entry_names("attncli.patterns").index(text) + causal
    request = FitRequest(d=(2, 8)[turn % 2], causal=causal, dtype="float32", effort=1)
    found = find_fit_with_smallest_logits(target, request, [0])
    own = [try_fit_at_width(name, target, request, [0]) for name in list_methods_at_fixed_width()]
    assert found.met >= any(attempt.met for attempt in own)
    if found.met:
        assert found.fit is not None
        assert found.evidence == measure_fit(found.fit, target)
        assert found.fit.d == request.d
        assert found.largest_absolute_logit <= own[-1].largest_absolute_logit or not own[-1].met


@pytest.mark.slow
def test_patterns_of_one_module_get_their_own_method_at_its_width() -> None:
    targets = {text: pattern(text, 32) for text in ("window:3", "permutation")}
    solution = fit_patterns_by_all_methods(targets, ["auto"], FitRequest(d=1, dtype="float32"), [0])
    _, permutation = solution.patterns
    assert solution.request.d == 3
    assert permutation.best_attempt.least == 2
    assert permutation.best_attempt.largest_absolute_logit < 60.0
    assert [fit.number for fit in solution.fits] == [0, 1]


@pytest.mark.slow
def test_the_widest_binds_every_method() -> None:
    target = pattern("random:k=3", 24)
    for method in ("cyclic", "learned", "convex", "certificate"):
        found = find_smallest_width_of_method(method, target, FitRequest(d=1), [0], 2)
        assert found.fit is None or found.fit.d <= 2
    assert "above the widest that is tried, 2" in (
        find_smallest_width_of_method("cyclic", target, FitRequest(d=1), [0], 2).reason or ""
    )
