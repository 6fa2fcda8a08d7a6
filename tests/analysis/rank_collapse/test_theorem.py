"""`rank-collapse --theorem`: constants and residuals of models against dense products and transformers' own attention."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from commands import attn
from small_checkpoints import saved

from attncli.analysis.rank_collapse.collapse_bound_rows import (
    describe_layers_covered_by_bound,
    log10_slack_of_collapse_bound,
)
from attncli.analysis.rank_collapse.network_variant_runs import log10_logit_range_of_residual
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork
from attncli.records import Row

IDS = "3,5,4,9,2,1,7"


def composite(m: np.ndarray) -> float:
    return math.sqrt(np.abs(m).sum(axis=0).max() * np.abs(m).sum(axis=1).max())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert")
    saved("BertModel", path, num_hidden_layers=3)
    return path


def report(*arguments: str) -> dict[str, Any]:
    done = attn("rank-collapse", *arguments, "--theorem", "-q", "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def values(found: dict[str, Any], metric: str, variant: str | None = None) -> list[Any]:
    return [r["value"] for r in found["rows"] if r["metric"] == metric and r["variant"] == variant]


@pytest.mark.slow
def test_constants_and_residuals_of_a_model(folder: Path) -> None:
    found = report(str(folder), "--token-ids", IDS, "--variants", "transformer")
    model = transformers.BertModel.from_pretrained(folder, dtype=torch.float64).eval()
    read, written = [], []
    for layer in model.encoder.layer:
        layer.attention.self.register_forward_pre_hook(lambda _, a: read.append(a[0][0].numpy()))
        layer.attention.output.dense.register_forward_hook(lambda _, __, o: written.append(o[0].numpy()))  # fmt: skip
    with torch.no_grad():
        model(input_ids=torch.tensor([[int(each) for each in IDS.split(",")]]))
    centred = [x - x.mean(axis=0) for x in read]
    for index, layer in enumerate(model.encoder.layer):
        own, heads, apart = layer.attention.self, [], []
        for head in range(2):
            rows = slice(8 * head, 8 * head + 8)
            w_q, w_k, w_v = (part.weight.detach().numpy()[rows].T for part in (own.query, own.key, own.value))  # fmt: skip
            w_o = layer.attention.output.dense.weight.detach().numpy()[:, rows].T
            heads.append(np.abs(w_q @ w_k.T).sum(axis=0).max() * composite(w_v @ w_o))
            logits = centred[index] @ w_q @ w_k.T @ centred[index].T / math.sqrt(8)
            apart.append(max(abs(row[:, None] - row[None, :]).max() for row in logits))
        assert values(found, "logit_range")[index] == pytest.approx(max(apart))
        constant = 4 * max(heads) * 2 / math.sqrt(8)
        before, after = (composite(x - x.mean(axis=0)) for x in (read[index], written[index]))
        assert values(found, "beta")[index] == pytest.approx(max(heads))
        assert values(found, "layer_constant")[index] == pytest.approx(constant)
        assert values(found, "layer_radius")[index] == pytest.approx(constant**-0.5)
        assert values(found, "attention_residual")[index] == pytest.approx(before)
        expected = math.log10(constant * before**3 / after)
        assert values(found, "bound_slack")[index] == pytest.approx(expected)
        assert expected > 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("random:gpt2?tiny&layers=2", "causal"),
        ("random:roformer?tiny", "by position"),
        ("random:t5?tiny", "relative bias"),
        ("random:xlnet?tiny", "model type 'xlnet'"),
    ],
)
def test_what_the_theorem_does_not_cover_is_null_with_its_reason(source: str, words: str) -> None:
    found = report(source, "--random-tokens", "9", "--variants", "transformer")
    slacks = [row for row in found["rows"] if row["metric"] == "bound_slack"]
    assert slacks
    assert all(row["value"] is None and words in row["note"] for row in slacks)
    assert any(words in finding["text"] for finding in found["findings"])
    assert not any("there are:" in finding["text"] for finding in found["findings"])


@pytest.mark.slow
def test_shared_layers_are_counted_as_they_run() -> None:
    found = report(
        "random:albert?tiny&layers=3", "--random-tokens", "9", "--variants", "transformer"
    )
    assert len(values(found, "attention_residual")) == 3
    assert len(set(values(found, "beta"))) == 1
    assert len(set(values(found, "attention_residual"))) == 3


def test_synthetic_networks_hold_their_one_layer_bound_far_below_floats() -> None:
    found = report(
        "--seeds", "2", "--layers", "5", "--tokens", "8", "--width", "16", "--heads", "2"
    )
    slacks = values(found, "bound_slack", "SAN")
    assert len(slacks) == 5
    assert all(value > 0.0 for value in slacks)
    assert not values(found, "bound_slack", "SAN+skip")
    assert len(values(found, "logit_range", "SAN")) == 5


def test_logits_of_a_synthetic_network_are_those_of_its_residuals() -> None:
    spec = NetworkSpec(layers=1, tokens=6, width=8, heads=2)
    network = GeneratedNetwork(spec, 3)
    layer, states = network.layer_weights(0), network.embeddings()
    centred = states - states.mean(axis=0)
    apart = [
        np.ptp(centred @ w_q @ (centred @ w_k).T / math.sqrt(spec.head_width), axis=1).max()
        for w_q, w_k in zip(layer.w_q, layer.w_k, strict=True)
    ]
    assert 10.0 ** log10_logit_range_of_residual(
        SplitState.from_states(states), layer
    ) == pytest.approx(max(apart))


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([0.2, 1.256], "proved in 2 of 2 layers"),
        ([0.2, 1.3], "proved in 1 of 2 layers"),
        ([], "is not known"),
    ],
)
def test_a_bound_is_called_proved_where_its_hypothesis_holds(
    ranges: list[float], words: str
) -> None:
    rows = [Row("logit_range", value, "1") for value in ranges]
    rows += [Row("bound_slack", 3.0, "log10")] * 2
    said = describe_layers_covered_by_bound(rows)
    assert words in said
    assert said.endswith("it is seen to hold in 2 of 2 layers, by 3.000 … 3.000 decades")


def test_slack_is_negative_where_the_bound_is_broken() -> None:
    assert log10_slack_of_collapse_bound(0.0, 0.1, 1e-4) == pytest.approx(1.0)
    assert log10_slack_of_collapse_bound(0.0, 0.1, 1e-2) == pytest.approx(-1.0)
    assert log10_slack_of_collapse_bound(0.0, 0.1, 0.0) == math.inf


def test_a_sweep_has_no_layers_of_one_network() -> None:
    done = attn("rank-collapse", "--theorem", "--sweep", "tokens=4:8")
    assert done.code == 2
    assert "--theorem" in done.err
