"""Sensitivities against finite differences, path sums against eager maps, repeats against transformers' own states."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from commands import attn as command
from scipy.stats import spearmanr

import attncli as attn
from attncli.analysis.paths.jacobian_norm_sampling import (
    estimate_jacobian_norm_shares,
    estimate_jacobian_norms,
    rank_correlation,
)
from attncli.commands.sensitivity.measure_sensitivity import SensitivityPlan
from attncli.maths.significance_tests import compute_student_confidence_interval
from attncli.models.precision import run_in_model_precision
from attncli.tensor_subclasses.stream_gradients import sample_orthonormal_directions

torch.set_num_threads(1)

IDS = torch.tensor([[3, 9, 4, 4, 17, 2, 30, 11, 7]])
TEXT = ",".join(map(str, IDS[0].tolist()))


def llama(layers: int = 2) -> Any:
    torch.manual_seed(1)
    config = hf.LlamaConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=24, max_position_embeddings=300,
    )  # fmt: skip
    model = hf.LlamaModel(config).double().eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 15.0
    return model


def last_state(model: Any, ids: torch.Tensor, moved: torch.Tensor | None = None) -> torch.Tensor:
    """After the last block and before the final norm; `moved` is added to what the first block is given."""
    kept: list[torch.Tensor] = []
    first = model.layers[0].register_forward_pre_hook(lambda m, args: None if moved is None else (args[0] + moved, *args[1:]))  # fmt: skip
    last = model.layers[-1].register_forward_hook(lambda m, args, out: kept.append(out[0] if isinstance(out, tuple) else out))  # fmt: skip
    with torch.no_grad(), run_in_model_precision(model):  # else norms are taken in float32
        model(ids, use_cache=False)
    first.remove()
    last.remove()
    return kept[0].reshape(ids.shape[1], -1)[-1]


@pytest.fixture(scope="module")
def model() -> Any:
    return llama()


@pytest.fixture(scope="module")
def exact(model: Any) -> Any:
    return attn.sensitivity(model, directions=16, token_ids=[TEXT])


def column(report: Any, metric: str) -> list[float]:
    return [row.value for row in report.rows if row.metric == metric]


@pytest.mark.slow
def test_sensitivities_are_those_of_finite_differences(model: Any, exact: Any) -> None:
    step, n = 1e-5, IDS.shape[1]
    expected = []
    for token in range(n):
        square = 0.0
        for feature in range(16):
            moved = torch.zeros(1, n, 16, dtype=torch.float64)
            moved[0, token, feature] = step
            change = last_state(model, IDS, moved) - last_state(model, IDS, -moved)
            square += float((change / (2 * step)).square().sum())
        expected.append(math.sqrt(square))
    assert column(exact, "sensitivity") == pytest.approx(expected, rel=1e-6)
    shares = [each / sum(expected) for each in expected]
    assert column(exact, "sensitivity_share") == pytest.approx(shares, rel=1e-6)
    assert {row.keys["error"] for row in exact.rows if row.metric == "sensitivity"} == {0.0}
    assert {row.keys["low"] - row.value for row in exact.rows if row.metric == "sensitivity"} == {0.0}  # fmt: skip


def test_a_small_model_is_exact_without_being_asked(model: Any, exact: Any) -> None:
    """Against the Jacobian by autograd, a row at a time, of the model's own code."""
    report = attn.sensitivity(model, token_ids=[TEXT])
    assert column(report, "sensitivity") == pytest.approx(jacobian_norms(model).tolist(), rel=1e-9)
    assert not any("directions" in row.keys for row in report.rows)
    assert "interval" not in report.headline


def jacobian(model: Any) -> torch.Tensor:
    """[feature of y_n, token, feature of x_i]."""
    start: list[torch.Tensor] = []
    state: list[torch.Tensor] = []

    def leaf(module: Any, args: Any) -> Any:
        start.append(args[0].detach().clone().requires_grad_())
        return (start[0], *args[1:])

    hooks = [
        model.layers[0].register_forward_pre_hook(leaf),
        model.layers[-1].register_forward_hook(lambda m, a, out: state.append(out)),
    ]
    with run_in_model_precision(model):
        model(IDS, use_cache=False)
    for hook in hooks:
        hook.remove()
    last = (state[0][0] if isinstance(state[0], tuple) else state[0]).reshape(IDS.shape[1], -1)[-1]
    rows = [torch.autograd.grad(each, start[0], retain_graph=True)[0][0] for each in last]
    return torch.stack(rows)


def jacobian_norms(model: Any) -> torch.Tensor:
    return jacobian(model).square().sum(dim=(0, 2)).sqrt()


def test_a_few_directions_are_what_they_show_of_the_jacobian(model: Any) -> None:
    few = attn.sensitivity(model, directions=8, token_ids=[TEXT], seed=3)
    pulled = torch.einsum(
        "uf,fik->uik", sample_orthonormal_directions(16, 8, 3), jacobian(model)
    ).norm(dim=-1)
    rows = [row for row in few.rows if row.metric == "sensitivity"]
    assert [row.value for row in rows] == pytest.approx(
        (16 * pulled.square().mean(0)).sqrt().tolist(), rel=1e-9
    )
    for row in rows:
        assert row.keys["directions"] == 8
        assert 0.0 < row.keys["low"] < row.value < row.keys["high"]
        assert row.keys["error"] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "least"), [(4, 0.90), (8, 0.91), (12, 0.91)])
@pytest.mark.parametrize("of", [estimate_jacobian_norms, estimate_jacobian_norm_shares])
def test_intervals_hold_the_exact_number_as_often_as_they_say(
    model: Any, of: Any, number: int, least: float
) -> None:
    """95 % of the intervals over 100 draws of directions, of every token of a real Jacobian."""
    whole = jacobian(model)
    true = np.array(of(whole.norm(dim=-1).numpy(), 16).values)
    inside = []
    for seed in range(100):
        back = torch.einsum(
            "uf,fik->uik", sample_orthonormal_directions(16, number, seed), whole
        ).norm(dim=-1)
        values, errors = of(back.numpy(), 16)
        around = [
            compute_student_confidence_interval(v, e, number - 1)
            for v, e in zip(values, errors, strict=True)
        ]
        inside.append([each.low <= t <= each.high for each, t in zip(around, true, strict=True)])
    assert least <= np.mean(inside) <= 0.99


@pytest.mark.slow
def test_the_headline_orders_only_what_the_intervals_separate(model: Any) -> None:
    """Over many draws: a token that it names first is the first of the exact numbers, or one of several."""
    true = jacobian_norms(model).argsort(descending=True).tolist()
    named = 0
    for seed in range(16, 28):
        report = attn.sensitivity(model, directions=6, token_ids=[TEXT], seed=seed)
        said = report.headline.partition("most sensitive to ")[2]
        assert "95 % intervals: 6 of 16 directions" in report.headline
        if said.startswith("token "):
            named += said.startswith(f"token {true[0]} ")
            assert said.startswith(f"token {true[0]} ")
        else:
            assert said.startswith("one of ")
    assert 0 < named < 12


def test_one_direction_ranks_nothing(model: Any) -> None:
    report = attn.sensitivity(model, directions=1, token_ids=[TEXT])
    assert "one direction cannot tell" in report.headline
    assert not {"error", "low", "high"} & {key for row in report.rows for key in row.keys if row.metric == "sensitivity"}  # fmt: skip


def test_several_texts_are_ranked_by_what_differs_between_them(model: Any) -> None:
    texts = [TEXT, ",".join(map(str, reversed(IDS[0].tolist()))), "1,2,3,4,5,6,7,8,9"]
    report = attn.sensitivity(model, token_ids=texts)
    assert "95 % intervals over 3 texts" in report.headline
    for row in report.rows:
        if row.metric == "sensitivity":
            factor = math.exp(4.302652729911275 * row.spread / math.sqrt(3) / row.value)
            assert row.keys["low"] == pytest.approx(row.value / factor)
            assert row.keys["high"] == pytest.approx(row.value * factor)


def test_the_estimate_of_a_known_matrix_is_not_biased() -> None:
    """‖J‖_F² is the mean over directions, and of all of them it is met."""
    jacobian = np.random.default_rng(0).standard_normal((12, 5))
    squares = []
    for seed in range(400):
        back = np.linalg.norm(
            sample_orthonormal_directions(12, 3, seed).numpy() @ jacobian, axis=1
        )[:, None]
        squares.append(estimate_jacobian_norms(back, 12).values[0] ** 2)
    whole = float(np.linalg.norm(jacobian)) ** 2
    assert np.mean(squares) == pytest.approx(whole, rel=4 * np.std(squares) / whole / 20)
    every = np.linalg.norm(sample_orthonormal_directions(12, 12, 0).numpy() @ jacobian, axis=1)[
        :, None
    ]
    norm, error = estimate_jacobian_norms(every, 12)
    assert norm[0] == pytest.approx(math.sqrt(whole))
    assert error[0] == 0.0
    assert np.isnan(estimate_jacobian_norms(every[:1], 12).errors[0])


def test_path_sums_are_the_product_of_the_maps(model: Any, exact: Any) -> None:
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(IDS, output_attentions=True, use_cache=False).attentions
    rolled, even, n = np.eye(9), np.eye(9), IDS.shape[1]
    uniform = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    for weights in maps:
        rolled = (weights[0].mean(0).double().numpy() + np.eye(n)) / 2 @ rolled
        even = (uniform + np.eye(n)) / 2 @ even
    assert column(exact, "path_sum") == pytest.approx(rolled[-1].tolist(), rel=1e-5)
    nulls = [row.keys["uniform"] for row in exact.rows if row.metric == "path_sum"]
    assert nulls == pytest.approx(even[-1].tolist(), rel=1e-6)


def test_repeats_are_those_of_texts_with_one_token_more(model: Any, exact: Any) -> None:
    rows = [row for row in exact.rows if row.metric == "repeat_distance"]
    assert [row.keys["length"] for row in rows] == [4, 8, 9]
    for row in rows:
        ids = IDS[:, : row.keys["length"]]
        once, twice = last_state(model, ids), last_state(model, torch.cat([ids, ids[:, -1:]], 1))
        assert row.value == pytest.approx(float((once - twice).norm() / once.norm()), rel=1e-9)
        assert row.keys["floor"] == 2.0**-53


def test_even_attention_hears_a_repeated_token_as_one_over_n() -> None:
    """Keys of zero: the mean over n tokens moves by a part of 1/(n + 1) when one comes once more."""
    model = llama(layers=1)
    model.layers[0].self_attn.k_proj.weight.data.zero_()
    ids = [5, 7] * 128  # the mean of half and half, at every length
    report = attn.sensitivity(model, directions=1, token_ids=[",".join(map(str, ids))])
    (slope,) = (row for row in report.rows if row.metric == "repeat_distance_slope")
    assert slope.value == pytest.approx(-1.0, abs=0.1)
    sums = column(report, "path_sum")
    assert sums[0] == pytest.approx(0.5 / 256, rel=1e-5)  # one layer: every token by one path
    assert sums[-1] == pytest.approx(0.5 + 0.5 / 256, rel=1e-5)


def test_early_tokens_have_most_paths_in_a_deep_causal_model() -> None:
    """Over-squashing towards the first token: more paths leave it than any other."""
    report = attn.sensitivity(llama(layers=6), directions=1, token_ids=[TEXT])
    nulls = [row.keys["uniform"] for row in report.rows if row.metric == "path_sum"]
    assert nulls[0] == max(nulls)
    assert sorted(nulls[:-1], reverse=True) == nulls[:-1]


@pytest.mark.slow
def test_a_hybrid_has_no_sum_over_paths_of_attention() -> None:
    report = attn.sensitivity("random:qwen3_next?tiny&layers=4", random_tokens=6)  # fmt: skip
    rows = [row for row in report.rows if row.metric == "path_sum"]
    assert len(rows) == 6
    assert all("do not all mix tokens by square maps" in (row.note or "") for row in rows)
    assert all(row.value > 0 for row in report.rows if row.metric == "sensitivity")


def test_ranks_correlate_as_in_scipy() -> None:
    stream = np.random.default_rng(0)
    first, second = stream.integers(0, 5, 30).astype(float), stream.standard_normal(30)
    assert rank_correlation(first, second) == pytest.approx(
        float(spearmanr(first, second).statistic)
    )
    assert math.isnan(rank_correlation(np.ones(4), second[:4]))


def test_a_live_model_keeps_its_gradients_to_itself(model: Any, exact: Any) -> None:
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all("forward" not in module.__dict__ for module in model.modules())


TINY = "random:bert?layers=1&width=16&heads=2"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "missing argument"),
        ((TINY, "--directions", "0"), 2, "--directions 0: it must be at least 1"),
        ((TINY, "--by", "head"), 2, "no such option: --by"),
        ((TINY, "--metric", "stable_rank"), 2, "no such option: --metric"),
        ((TINY, "--token-ids", "1,2", "--token-ids", "1,2,3"), 2, "places in texts of one length"),
    ],
)  # fmt: skip
def test_what_has_no_sensitivity_is_refused(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("sensitivity", *arguments)
    assert done.code == code
    assert said in done.err


def test_memory_is_said_before_and_refused_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = command("sensitivity", TINY, "--random-tokens", "64", "--format", "json")
    assert done.code == 0, done.err
    assert "gradients of 64 tokens through 1 block: about" in done.err
    assert "1 forward and 16 backward passes a text (exact)" in done.err
    assert len(json.loads(done.out)["rows"]) == 3 * 64 + 5 + 1
    monkeypatch.setattr("attncli.resource_limits.available_memory", lambda: 10**5)
    refused = command("sensitivity", TINY, "--random-tokens", "64")
    assert refused.code == 4
    assert "gradients of 64 tokens through 1 block needs about" in refused.err


@pytest.mark.parametrize(
    ("weights", "tokens", "number"),
    [(10**7, 12, 384), (10**7, 120, 384), (10**7, 400, 32), (10**9, 12, 32)],
)
def test_all_directions_where_they_are_cheap(weights: int, tokens: int, number: int) -> None:
    assert SensitivityPlan(None, 0, 384, weights).choose_output_direction_count(tokens) == number
    assert SensitivityPlan(5, 0, 384, weights).choose_output_direction_count(tokens) == 5
    assert SensitivityPlan(500, 0, 384, weights).choose_output_direction_count(tokens) == 384
