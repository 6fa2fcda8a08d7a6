"""The narrowest module for a map with weights everywhere, against maps whose width is known."""

import numpy as np
import pytest
import torch

from attncli.fits._dense_attention_map_fit import find_narrowest_dense_map_fit
from attncli.maths.head_capacity.dense_map_width import (
    bound_width_of_dense_map,
    find_key_splits_by_weight,
    has_contradicting_key_orders,
)

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
    found = find_narrowest_dense_map_fit(weights, causal, LIMIT, 39)
    assert found is not None
    assert found.fit.d <= rank
    errors = 0.5 * np.abs(shown(found.fit) - weights).sum(axis=1)
    assert errors.max() <= LIMIT
    assert found.evidence.total_variation == pytest.approx(errors.max(), rel=1e-3, abs=1e-6)


def test_even_attention_needs_one_feature() -> None:
    found = find_narrowest_dense_map_fit(np.full((12, 12), 1 / 12), False, LIMIT, 11)
    assert found is not None
    assert found.fit.d == 1


@pytest.mark.slow
def test_independent_logits_need_many_features_and_a_search_may_end_before() -> None:
    weights = softmax(np.random.default_rng(0).normal(size=(40, 40)) * 4.0, False)
    assert find_narrowest_dense_map_fit(weights, False, LIMIT, 2) is None
    found = find_narrowest_dense_map_fit(weights, False, LIMIT, 39)
    assert found is not None
    assert bound_width_of_dense_map(weights, False, LIMIT) <= found.fit.d <= 8


def test_weights_that_are_nothing_are_no_obstacle() -> None:
    """A window under a causal mask: most visible weights are 0."""
    weights = np.tril(np.triu(np.ones((24, 24)), -2))
    weights /= weights.sum(axis=1, keepdims=True)
    found = find_narrowest_dense_map_fit(weights, True, LIMIT, 23)
    assert found is not None
    assert 0.5 * np.abs(shown(found.fit) - weights).sum(axis=1).max() <= LIMIT


def adam(weights: np.ndarray, d: int, steps: int = 1500) -> float:
    """The worst row that plain Adam reaches on the largest variations, from two starts: nothing of ours in it."""
    torch.set_num_threads(1)
    wanted, best = torch.tensor(weights), 1.0
    for seed in range(2):
        drawn = torch.Generator().manual_seed(seed)
        both = (0.5 * torch.randn(2, len(weights), d, generator=drawn, dtype=torch.float64)).requires_grad_()  # fmt: skip
        step = torch.optim.Adam([both], lr=0.05)
        fading = torch.optim.lr_scheduler.CosineAnnealingLR(step, steps)
        for _ in range(steps):
            made = torch.softmax(both[0] @ both[1].T, dim=1)
            rows = 0.5 * (made - wanted).abs().sum(dim=1)
            best = min(best, float(rows.detach().max()))
            step.zero_grad()
            (rows / LIMIT).pow(8).mean().pow(1 / 8).backward()
            step.step()
            fading.step()
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_adam_finds_nothing_narrower(seed: int) -> None:
    """Maps with many directions of falling size and a sink, as trained heads have."""
    rng = np.random.default_rng(seed)
    sizes = 3.0 * 0.75 ** np.arange(20)
    logits = (rng.normal(size=(24, 20)) * sizes) @ rng.normal(size=(20, 24)) / 2.0
    logits[:, 0] += 2.0
    weights = softmax(logits, False)
    found = find_narrowest_dense_map_fit(weights, False, LIMIT, 23)
    assert found is not None
    assert adam(weights, found.fit.d - 1) > LIMIT


def test_a_ring_shows_the_previous_token_at_two_features() -> None:
    weights = 0.98 * np.roll(np.eye(24), -1, axis=1) + 0.02 / 24
    found = find_narrowest_dense_map_fit(weights, False, LIMIT, 23)
    assert found is not None
    assert found.fit.d == 2
    assert bound_width_of_dense_map(weights, False, LIMIT) == 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_is_proved_of_a_map_is_true_of_maps_of_every_rank(rank: int, causal: bool) -> None:
    """Sharp maps of logits of a rank, moved within the limit: the bound never exceeds the rank that shows them."""
    proved = []
    for seed in range(25):
        rng = np.random.default_rng([rank, seed])
        queries, keys = rng.normal(size=(2, 16, rank))
        shown_map = softmax(6.0 * queries @ keys.T, causal)
        noise = softmax(rng.normal(size=(16, 16)) * 3.0, causal)
        weights = (1.0 - LIMIT) * shown_map + LIMIT * noise  # within LIMIT in every row
        proved.append(bound_width_of_dense_map(weights, causal, LIMIT))
    assert max(proved) <= rank
    assert max(proved) > 1 or rank == 1


def test_cuts_are_kept_by_every_map_within_the_limit() -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(8, 0.3), size=8)
    cuts = find_key_splits_by_weight(weights, np.full(8, 8), LIMIT)
    assert len(cuts.row)
    for _ in range(200):
        moved = weights + rng.uniform(
            -LIMIT, LIMIT, size=weights.shape
        )  # more than any such map may differ
        for above, known, row in zip(cuts.above, cuts.known_sides, cuts.row, strict=True):
            if (known & ~above).any():
                assert moved[row, above].min() > moved[row, known & ~above].max()


def test_two_rows_that_cross_need_more_than_a_line() -> None:
    """By hand: of four keys, rows prefer {0, 1}, {1, 2} and so on around a circle."""
    weights = np.array([[0.48, 0.48, 0.02, 0.02], [0.02, 0.48, 0.48, 0.02], [0.02, 0.02, 0.48, 0.48], [0.48, 0.02, 0.02, 0.48]])  # fmt: skip
    assert has_contradicting_key_orders(weights, False, LIMIT)
    assert not has_contradicting_key_orders(np.full((4, 4), 0.25), False, LIMIT)
    assert bound_width_of_dense_map(weights, False, LIMIT) == 2
