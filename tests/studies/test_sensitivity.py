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
from attncli.carried.gradients import directions
from attncli.studies.model_runs import own_precision
from attncli.studies.paths.sensitivity import estimated
from attncli.studies.paths.sensitivity_rows import ranked_alike

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
    with torch.no_grad(), own_precision(model):  # else norms are taken in float32
        model(ids, use_cache=False)
    first.remove()
    last.remove()
    return kept[0].reshape(ids.shape[1], -1)[-1]


@pytest.fixture(scope="module")
def model() -> Any:
    return llama()


@pytest.fixture(scope="module")
def exact(model: Any) -> Any:
    return attn.paths(model, sensitivity=True, directions=16, token_ids=[TEXT])


def column(report: Any, metric: str) -> list[float]:
    return [row.value for row in report.rows if row.metric == metric]


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


def test_a_few_directions_are_near_and_their_error_says_how(model: Any, exact: Any) -> None:
    few = attn.paths(model, sensitivity=True, directions=8, token_ids=[TEXT], seed=3)
    rows = [row for row in few.rows if row.metric == "sensitivity"]
    for row, true in zip(rows, column(exact, "sensitivity"), strict=True):
        assert abs(row.value - true) < 5 * float(row.keys["error"])
        assert abs(row.value / true - 1.0) < 0.5


def test_the_estimate_of_a_known_matrix_is_not_biased() -> None:
    """‖J‖_F² is the mean over directions, and of all of them it is met."""
    jacobian = np.random.default_rng(0).standard_normal((12, 5))
    squares = []
    for seed in range(400):
        back = np.linalg.norm(directions(12, 3, seed).numpy() @ jacobian, axis=1)[:, None]
        squares.append(estimated(back, 12)[0][0] ** 2)
    whole = float(np.linalg.norm(jacobian)) ** 2
    assert np.mean(squares) == pytest.approx(whole, rel=4 * np.std(squares) / whole / 20)
    every = np.linalg.norm(directions(12, 12, 0).numpy() @ jacobian, axis=1)[:, None]
    norm, error = estimated(every, 12)
    assert norm[0] == pytest.approx(math.sqrt(whole))
    assert error[0] == 0.0
    assert np.isnan(estimated(every[:1], 12)[1][0])


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
    report = attn.paths(model, sensitivity=True, directions=1, token_ids=[",".join(map(str, ids))])
    (slope,) = (row for row in report.rows if row.metric == "repeat_distance_slope")
    assert slope.value == pytest.approx(-1.0, abs=0.1)
    sums = column(report, "path_sum")
    assert sums[0] == pytest.approx(0.5 / 256, rel=1e-5)  # one layer: every token by one path
    assert sums[-1] == pytest.approx(0.5 + 0.5 / 256, rel=1e-5)


def test_early_tokens_have_most_paths_in_a_deep_causal_model() -> None:
    """Over-squashing towards the first token: more paths leave it than any other."""
    report = attn.paths(llama(layers=6), sensitivity=True, directions=1, token_ids=[TEXT])
    nulls = [row.keys["uniform"] for row in report.rows if row.metric == "path_sum"]
    assert nulls[0] == max(nulls)
    assert sorted(nulls[:-1], reverse=True) == nulls[:-1]


def test_a_hybrid_has_no_sum_over_paths_of_attention() -> None:
    report = attn.paths("random:qwen3_next?layers=4&width=32&heads=2", sensitivity=True, random_tokens=6)  # fmt: skip
    rows = [row for row in report.rows if row.metric == "path_sum"]
    assert len(rows) == 6
    assert all("do not all mix tokens by square maps" in (row.note or "") for row in rows)
    assert all(row.value > 0 for row in report.rows if row.metric == "sensitivity")


def test_ranks_correlate_as_in_scipy() -> None:
    stream = np.random.default_rng(0)
    first, second = stream.integers(0, 5, 30).astype(float), stream.standard_normal(30)
    assert ranked_alike(first, second) == pytest.approx(float(spearmanr(first, second).statistic))
    assert math.isnan(ranked_alike(np.ones(4), second[:4]))


def test_a_live_model_keeps_its_gradients_to_itself(model: Any, exact: Any) -> None:
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all("forward" not in module.__dict__ for module in model.modules())


TINY = "random:bert?layers=1&width=16&heads=2"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--sensitivity",), 2, "--sensitivity goes with a model"),
        ((TINY, "--directions", "3"), 2, "--directions goes with --sensitivity"),
        ((TINY, "--sensitivity", "--directions", "0"), 2, "--directions 0: it must be at least 1"),
        ((TINY, "--sensitivity", "--by", "head"), 2, "are different questions"),
        ((TINY, "--sensitivity", "--metric", "stable_rank"), 2, "--metric is about all paths of a length"),
        ((TINY, "--sensitivity", "--token-ids", "1,2", "--token-ids", "1,2,3"), 2, "places in texts of one length"),
    ],
)  # fmt: skip
def test_what_has_no_sensitivity_is_refused(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("paths", *arguments)
    assert done.code == code
    assert said in done.err


def test_memory_is_said_before_and_refused_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = command("paths", TINY, "--sensitivity", "--random-tokens", "64", "--format", "json")
    assert done.code == 0, done.err
    assert "gradients of 64 tokens through 1 blocks: about" in done.err
    assert "1 forward and 4 backward passes a text" in done.err
    assert len(json.loads(done.out)["rows"]) == 3 * 64 + 5 + 1
    monkeypatch.setattr("attncli.limits.available_memory", lambda: 10**5)
    refused = command("paths", TINY, "--sensitivity", "--random-tokens", "64")
    assert refused.code == 4
    assert "gradients of 64 tokens through 1 blocks needs about" in refused.err
