"""Rank against heads: the layer against loops, its best head against a closed form, its training to the last bit."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import attncli as attn
from attncli.commands.reproduce.rank_heads.experiment import format_rank_comparison_headline
from attncli.commands.reproduce.rank_heads.head_training_plan import HeadRankExperiment
from attncli.commands.reproduce.rank_heads.multi_head_layer import (
    BatchedHeadLayers,
    build_training_loss,
    compute_layer_predictions,
)
from attncli.commands.reproduce.rank_heads.nearest_token_task import sample_nearest_token_problems
from attncli.commands.reproduce.training_loop import train_network
from attncli.maths.head_capacity.low_rank_head import (
    low_rank_head_error_rate,
    low_rank_head_mean_squared_error,
)
from attncli.records import Report

torch.set_num_threads(1)
QUICK = {"ranks": "1,4", "dimension": 4, "seeds": 2, "train_steps": 20}


def test_how_often_few_directions_mislead() -> None:
    """In the plane the angle to an axis is uniform, a quarter on average; else against random points."""
    assert low_rank_head_error_rate(1, 2) == pytest.approx(0.25, abs=1e-12)
    assert low_rank_head_error_rate(3, 3) == low_rank_head_mean_squared_error(3, 3) == 0.0
    questions = sample_nearest_token_problems(np.random.default_rng(0), 200_000, 2, 5)
    difference = questions.tokens[:, 0] - questions.tokens[:, 1]
    for rank in (1, 2, 4):
        seen = (difference[:, :rank] * questions.queries[:, :rank]).sum(axis=1)
        wrong = np.sign(seen) != np.sign((difference * questions.queries).sum(axis=1))
        assert low_rank_head_error_rate(rank, 5) == pytest.approx(wrong.mean(), abs=4e-3)


def test_the_nearest_is_nearest() -> None:
    questions = sample_nearest_token_problems(np.random.default_rng(1), 50, 7, 3)
    assert np.linalg.norm(questions.tokens, axis=2) == pytest.approx(1.0)
    for tokens, query, nearest in zip(questions.tokens, questions.queries, questions.nearest_tokens, strict=True):  # fmt: skip
        assert (nearest == min(tokens, key=lambda each: np.linalg.norm(each - query))).all()


def set_weights(layer: BatchedHeadLayers, **weights: np.ndarray) -> None:
    with torch.no_grad():
        for name, values in weights.items():
            layer.get_parameter(name).copy_(torch.from_numpy(values))


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_a_projecting_head_has_the_error_of_the_closed_form(rank: int) -> None:
    """Of full rank it has none; its answer is drawn to the mean by heads that look nowhere."""
    d = 6
    questions = sample_nearest_token_problems(np.random.default_rng(2), 100_000, 2, d)
    layer = BatchedHeadLayers(d, rank, 2, [0])
    axes = np.zeros((1, 2, d, rank))
    axes[0, 0, :rank] = np.eye(rank)
    drawn = 1.0 - 2.0 * low_rank_head_error_rate(rank, d)
    values = np.stack([drawn * np.eye(d), (1.0 - drawn) * np.eye(d)])[None]
    set_weights(layer, w_q=1e4 * axes, w_k=axes, w_v=values)
    (given,) = compute_layer_predictions(layer, [questions])
    error = np.square(given - questions.nearest_tokens).sum(axis=1).mean()
    assert error == pytest.approx(low_rank_head_mean_squared_error(rank, d), abs=5e-3)


def test_loss_and_gradient_against_loops() -> None:
    """Every sum written out, and the derivative of every weight by two steps to either side."""
    d, rank, heads, tokens, seeds = 3, 2, 2, 3, [4, 9]
    layer = BatchedHeadLayers(d, rank, heads, seeds).double()
    drawn = [
        sample_nearest_token_problems(np.random.default_rng([seed, 0, 5]), 4, tokens, d)
        for seed in seeds
    ]

    def by_hand(weights: dict[str, np.ndarray]) -> float:
        total = 0.0
        for s, questions in enumerate(drawn):
            for x, y, wanted in zip(questions.tokens, questions.queries, questions.nearest_tokens, strict=True):  # fmt: skip
                answer = np.zeros(d)
                for h in range(heads):
                    asked = y @ weights["w_q"][s, h]
                    scores = [math.exp(each @ weights["w_k"][s, h] @ asked) for each in x]
                    for score, each in zip(scores, x, strict=True):
                        answer += score / sum(scores) * each @ weights["w_v"][s, h]
                total += ((answer - wanted) ** 2).sum() / len(questions.queries)
        return total

    weights = {name: each.detach().numpy().copy() for name, each in layer.named_parameters()}
    loss = torch.zeros((), dtype=torch.float64)
    for s, questions in enumerate(drawn):
        x, y = (torch.from_numpy(each).expand(2, *each.shape) for each in questions[:2])
        missed = layer(x, y)[s] - torch.from_numpy(questions.nearest_tokens)
        loss = loss + missed.square().sum(dim=-1).mean()
    assert float(loss.detach()) == pytest.approx(by_hand(weights), rel=1e-12)
    loss.backward()
    for name, values in weights.items():
        for place in [(0, 0, 1, 1), (1, 1, 2, 0)]:
            sides = []
            for step in (1e-5, -1e-5):
                moved = {**weights, name: values.copy()}
                moved[name][place] += step
                sides.append(by_hand(moved))
            slope = (sides[0] - sides[1]) / 2e-5
            gradient = layer.get_parameter(name).grad
            assert gradient is not None
            assert float(gradient[place]) == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_the_training_has_that_loss() -> None:
    layer = BatchedHeadLayers(4, 2, 2, [3])
    questions = sample_nearest_token_problems(np.random.default_rng([3, 0, 7]), 256, 2, 4)
    (given,) = compute_layer_predictions(layer, [questions])
    expected = np.square(given - questions.nearest_tokens).sum(axis=1).mean()
    assert float(build_training_loss(layer, 2, 4, [3])(7).detach()) == pytest.approx(
        expected, rel=1e-5
    )


@pytest.mark.slow
def test_a_head_of_full_rank_learns_what_heads_of_rank_one_do_not() -> None:
    """The paper's direction: at equal H · r, and at four times as many heads."""
    wanted = HeadRankExperiment(4, 2, [1, 4], [4, 16], [0], training_steps=250)
    errors = {}
    for product, rank in wanted.iterate_total_ranks_and_head_ranks():
        layer = BatchedHeadLayers(4, rank, product // rank, [0])
        losses = train_network(
            layer, build_training_loss(layer, 2, 4, [0]), wanted.build_training_plan(product, rank)
        )
        errors[product, rank] = sum(losses[-20:]) / 20
    assert errors[4, 4] < 0.06
    assert errors[4, 1] > errors[16, 1] > 2 * errors[4, 4]
    assert errors[4, 1] < low_rank_head_mean_squared_error(1, 4)


def rows_of(report: Report) -> list[tuple[object, ...]]:
    return [(row.metric, row.value, row.spread, str(row.keys)) for row in report.rows]


@pytest.mark.slow
def test_a_kept_training_gives_the_same_numbers(tmp_path: Path) -> None:
    plain = attn.reproduce.rank_heads(**QUICK)
    kept = [attn.reproduce.rank_heads(save_training=tmp_path, **QUICK) for _ in range(2)]
    assert rows_of(plain) == rows_of(kept[0]) == rows_of(kept[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"rank-heads-d4-n2-rank{rank}-heads{heads}.safetensors"
        for rank, heads in [(1, 16), (1, 4), (4, 1), (4, 4)]
    ]


@pytest.mark.slow
def test_rows_and_closed_form() -> None:
    report = attn.reproduce.rank_heads(length=3, **QUICK)
    values = {(row.metric, row.keys["rank"], row.keys["heads"]): row for row in report.rows}
    assert values["weights", 1, 16].value == 16 * (4 + 4 + 16)
    assert values["projecting_error", 1, 4].value is None
    assert 0.2 < values["error_share", 1, 4].value < 1.2
    assert values["error", 1, 4].spread is not None
    two = attn.reproduce.rank_heads(**QUICK)
    (closed,) = [row.value for row in two.rows if row.metric == "projecting_error" and row.keys["heads"] == 16]  # fmt: skip
    assert closed == low_rank_head_mean_squared_error(1, 4)


@pytest.mark.parametrize(
    ("many", "few", "says"),
    [
        ((0.40, 0.41), (0.10, 0.11), "8 heads of rank 1 do worse than 1 head of rank 8 (40.50 ± 0.71 % against 10.50 ± 0.71 %)"),
        ((0.10, 0.11), (0.40, 0.41), "8 heads of rank 1 do better than 1 head of rank 8 (10.50"),
        ((0.3, 0.5), (0.25, 0.4), "2 seeds cannot rank 8 heads of rank 1 and 1 head of rank 8 (40 ± 14 % and 32 ± 11 %)"),
        ((0.4,), (0.1,), "1 seed cannot rank 8 heads of rank 1 and 1 head of rank 8 (40 % and 10 %)"),
    ],
)  # fmt: skip
def test_the_first_line_ranks_only_what_the_seeds_tell_apart(
    many: tuple[float, ...], few: tuple[float, ...], says: str
) -> None:
    wanted = HeadRankExperiment(8, 2, (1, 8), (8,), range(len(many)))
    found = {(8, 1): {"error_share": many}, (8, 8): {"error_share": few}}
    assert f": {says}" in format_rank_comparison_headline(wanted, found)
