"""Metrics of a model's own states against their definitions, written out over all pairs of tokens."""

import math
import statistics

import pytest
import torch
from torch import Tensor

from attncli.metrics.activations import ACTIVATIONS
from attncli.metrics.activations._activation_state import ActivationPeak, ActivationState

GAP, WITHOUT = "token_cosine_gap", "token_cosine_gap_without_spikes"


def of(name: str, values: Tensor) -> float:
    return float(ACTIVATIONS[name](ActivationState(values)))


def some(tokens: int = 7, features: int = 5) -> Tensor:
    """With a common direction, and mostly negative, so that a number and its size are not the same."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(tokens, features, generator=generator, dtype=torch.float64) - 1.0


def gap_over_pairs(values: Tensor) -> float:
    pairs = [(a, b) for i, a in enumerate(values) for b in values[:i]]
    return 1.0 - math.fsum(float(torch.cosine_similarity(a, b, dim=0)) for a, b in pairs) / len(pairs)  # fmt: skip


@pytest.mark.parametrize("tokens", [2, 3, 7])
def test_the_gap_is_one_less_the_mean_cosine_of_different_tokens(tokens: int) -> None:
    values = some(tokens)
    assert of(GAP, values) == pytest.approx(gap_over_pairs(values), rel=1e-12)


def test_gaps_that_are_known() -> None:
    assert of(GAP, torch.eye(4)) == pytest.approx(1.0)
    assert of(GAP, torch.tensor([[1.0, 0.0], [-3.0, 0.0]])) == pytest.approx(2.0)
    assert of(GAP, torch.ones(4, 3) * torch.arange(1.0, 5.0)[:, None]) == pytest.approx(0.0, abs=1e-12)  # fmt: skip
    assert math.isnan(of(GAP, torch.ones(1, 3)))


@pytest.mark.parametrize("tokens", [6, 7])
def test_sizes_are_compared_with_the_median_size(tokens: int) -> None:
    values = some(tokens, features=5)
    sizes = sorted(values.abs().flatten().tolist())
    assert of("max_activation", values) == sizes[-1]
    ratio = sizes[-1] / statistics.median(sizes)
    assert of("max_activation_ratio", values) == pytest.approx(ratio, rel=1e-12)
    assert math.isnan(of("max_activation_ratio", torch.zeros(3, 3)))


@pytest.mark.parametrize(
    ("size", "spikes"), [(99.0, False), (101.0, False), (999.0, False), (1001.0, True)]
)
def test_a_token_spikes_above_100_and_above_1000_medians(size: float, spikes: bool) -> None:
    """The median is 1, but for the token that may spike, negatively."""
    values = some(9).sign()
    values[4, 2] = -size
    rest = torch.cat([values[:4], values[5:]])
    assert of(WITHOUT, values) == pytest.approx(of(GAP, rest if spikes else values))
    assert ActivationState(values).find_largest_activation() == ActivationPeak(
        4, 2, size if size > 100.0 else None
    )


def test_a_small_median_is_not_enough() -> None:
    values = 1e-3 * some(9).sign()
    values[4, 2] = 50.0
    assert of(WITHOUT, values) == of(GAP, values)
    assert ActivationState(values).find_largest_activation().over_median is None


def test_every_metric_says_what_it_measures() -> None:
    assert all(ACTIVATIONS.definition(name).definition for name in ACTIVATIONS.names())
