"""The narrowest module for a map with weights everywhere, against maps whose width is known."""

import numpy as np
import pytest

from attncli.fits._own_map import narrowest_module

LIMIT = 0.05


def softmax(logits: np.ndarray, causal: bool) -> np.ndarray:
    if causal:
        logits = np.where(np.tril(np.ones(logits.shape, dtype=bool)), logits, -np.inf)
    made = np.exp(logits - logits.max(axis=1, keepdims=True))
    return made / made.sum(axis=1, keepdims=True)


def shown(fit: object) -> np.ndarray:
    """What the module does, in four lines that know nothing of it but w_q, w_k and x."""
    x = fit.x.astype(np.float64)
    return softmax((x @ fit.w_q) @ (x @ fit.w_k).T, fit.causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rank", [1, 3, 6])
def test_logits_of_a_rank_need_no_more(rank: int, causal: bool) -> None:
    rng = np.random.default_rng(rank)
    queries, keys = rng.normal(size=(2, 40, rank)) * 1.5
    weights = softmax(queries @ keys.T + rng.normal(size=(40, 1)), causal)  # rows move freely
    found = narrowest_module(weights, causal, LIMIT, 39)
    assert found is not None
    assert found.fit.d <= rank
    errors = 0.5 * np.abs(shown(found.fit) - weights).sum(axis=1)
    assert errors.max() <= LIMIT
    assert found.evidence.total_variation == pytest.approx(errors.max(), rel=1e-3, abs=1e-6)


def test_even_attention_needs_one_feature() -> None:
    found = narrowest_module(np.full((12, 12), 1 / 12), False, LIMIT, 11)
    assert found is not None
    assert found.fit.d == 1


def test_independent_logits_need_many_features_and_a_search_may_end_before() -> None:
    weights = softmax(np.random.default_rng(0).normal(size=(40, 40)) * 4.0, False)
    assert narrowest_module(weights, False, LIMIT, 2) is None
    found = narrowest_module(weights, False, LIMIT, 39)
    assert found is not None
    assert found.fit.d > 8


def test_weights_that_are_nothing_are_no_obstacle() -> None:
    """A window under a causal mask: most visible weights are 0."""
    weights = np.tril(np.triu(np.ones((24, 24)), -2))
    weights /= weights.sum(axis=1, keepdims=True)
    found = narrowest_module(weights, True, LIMIT, 23)
    assert found is not None
    assert 0.5 * np.abs(shown(found.fit) - weights).sum(axis=1).max() <= LIMIT
