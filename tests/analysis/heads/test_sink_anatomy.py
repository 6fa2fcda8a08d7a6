"""How a sink is made: its key, value and the queries' cosines with it, against hand-written passes of the same models."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from oracles.forwards import ORACLES
from oracles.forwards.tiny_models import TINY
from torch import Tensor

from attncli.analysis.heads.forward_passes.head_observer import PassRequest, measure_forward_pass
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import list_metrics_by_group
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.metrics.attention._metric_accumulator import MetricTotals, measure_maps
from attncli.metrics.attention._row_block_of_maps import MapStripRows

torch.set_num_threads(1)

SIDES = ("query_key_cosine", "sink_key_ratio", "sink_query_cosine", "sink_value_ratio")


def seen_of(model: Any, inputs: Any, memory: int = 2**25) -> list[Any]:
    stacks = find_block_stacks(model, inputs)
    wanted = PassRequest(SIDES)
    found = measure_forward_pass(model, stacks, inputs, wanted, UniformAttentionControl(), "", lambda share: None, strip_memory=memory)  # fmt: skip
    return list(found.heads.values())


def by_hand(q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray) -> dict[str, float]:
    """Of one head, pair by pair."""

    def cosine(i: int, j: int) -> float:
        return float(q[i] @ k[j]) / float(np.sqrt((q[i] @ q[i]) * (k[j] @ k[j])))

    n = len(q)
    keys, values = ([float(np.sqrt(x @ x)) for x in side] for side in (k, v))
    around = [np.mean([cosine(i, j) for j in range(n) if visible[i, j]]) for i in range(n)]
    return {
        "query_key_cosine": float(np.mean(around)),
        "sink_key_ratio": keys[0] / float(np.median(keys)),
        "sink_query_cosine": float(np.mean([cosine(i, 0) for i in range(n) if visible[i, 0]])),
        "sink_value_ratio": values[0] / float(np.median(values)),
    }


@pytest.mark.parametrize("memory", [1, 2**25])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "mistral"])
def test_sides_are_those_of_a_hand_written_pass(
    name: str, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rotary positions, grouped keys and windows of 4 among them."""
    model, inputs = TINY[name]()
    oracle = ORACLES[model.config.model_type]
    module = sys.modules[f"oracles.forwards.{'llama' if name == 'mistral' else name}"]
    calls: list[Any] = []
    own = module.attention  # type: ignore[attr-defined]

    def watched(q: Any, k: Any, v: Any, **how: Any) -> Any:
        visible = how.get("visible")
        calls.append((q, k, v, np.ones((len(q[0]),) * 2, bool) if visible is None else visible))
        return own(q, k, v, **how)

    monkeypatch.setattr(module, "attention", watched)
    oracle.attention_maps(model, inputs)
    found = seen_of(model, inputs, memory)
    assert len(found) == len(calls)
    for values, (q, k, v, visible) in zip(found, calls, strict=True):
        expected = [by_hand(*head, visible) for head in zip(q, k, v, strict=True)]
        for metric in SIDES:
            assert values[metric].tolist() == pytest.approx([e[metric] for e in expected], rel=1e-6)


def test_an_attention_whose_keys_are_not_seen_says_so() -> None:
    """XLNet's softmax is met where its queries and keys are gone."""
    model, inputs = TINY["xlnet"]()
    for values in seen_of(model, inputs):
        assert set(values.values()) == {"n/a: its queries and keys were not seen"}


def test_a_built_sink_shows_all_its_parts() -> None:
    """Queries that point at a short key without a value: as trained sinks do."""
    generator = torch.Generator().manual_seed(0)
    key, value = torch.randn(2, 1, 2, 16, 8, generator=generator, dtype=torch.float64)
    query = torch.zeros(1, 4, 16, 8, dtype=torch.float64)
    query[..., 0], key[..., 0] = 3.0, 0.0
    key[..., 0, :] = 0.0
    key[..., 0, 0], value[..., 0, :] = 0.5, 0.0
    weights = torch.zeros(1, 4, 16, 16, dtype=torch.float64)
    weights[..., 0] = 1.0
    found = of_sides(weights, query, key, value)
    assert found["sink_query_cosine"].tolist() == [1.0] * 4
    assert found["sink_value_ratio"].tolist() == [0.0] * 4
    assert (found["sink_key_ratio"] < 0.5).all()
    assert found["query_key_cosine"].tolist() == pytest.approx([1 / 16] * 4)


def of_sides(weights: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Any:
    totals = MetricTotals(SIDES)
    totals.accumulate_map_rows(MapStripRows(weights, sides=(query, key, value)))
    return totals.compute_metric_values()


def test_heads_that_do_not_share_keys_evenly_are_not_guessed() -> None:
    maps, side = torch.full((1, 4, 5, 5), 0.2), torch.ones(1, 3, 5, 2)
    found = of_sides(maps, torch.ones(1, 4, 5, 2), side, side)
    assert found["sink_key_ratio"].startswith("n/a: heads do not share keys evenly")


def test_token_0_and_a_learned_sink_are_on_one_scale() -> None:
    """The same rest, taken by a token or by a logit."""
    with_token = torch.full((1, 1, 10, 5), 0.1, dtype=torch.float64)
    with_token[..., 0] = 0.6
    with_logit = torch.full(
        (1, 1, 10, 5), 0.1, dtype=torch.float64
    )  # 0.5 of each row is the learned sink's
    on_token, on_logit = (float(measure_maps(m, ["rest_share"], same_tokens=False)["rest_share"]) for m in (with_token, with_logit))  # fmt: skip
    assert on_token == pytest.approx(0.6) == on_logit


def test_the_group_is_what_a_sink_is_made_of() -> None:
    assert set(list_metrics_by_group()["sinks"]) == {*SIDES, "rest_share"}
