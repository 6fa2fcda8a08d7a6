"""Metrics of depth on models, against what transformers' own hidden states give, and the words about them."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from commands import attn
from small_checkpoints import saved

import attncli
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

IDS = "3,5,4,9,2,1,7"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert")
    saved("BertModel", path, num_hidden_layers=4)
    return path


def states_of(folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """After every block and, inside each, after its attention, as transformers has them in float64."""
    model = transformers.BertModel.from_pretrained(folder, dtype=torch.float64).eval()
    inner: list[np.ndarray] = []
    for layer in model.encoder.layer:
        layer.attention.register_forward_hook(lambda _m, _a, out: inner.append(out[0][0].numpy()))
    with torch.no_grad():
        ids = torch.tensor([[int(each) for each in IDS.split(",")]])
        states = model(input_ids=ids, output_hidden_states=True).hidden_states
    return [state[0].numpy() for state in states], inner


def influence(before: np.ndarray, after: np.ndarray) -> float:
    cosines = (before * after).sum(1) / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)  # fmt: skip
    return float((1.0 - cosines).mean())


def ratio(before: np.ndarray, after: np.ndarray) -> float:
    return float(np.linalg.norm(after - before) / np.linalg.norm(before))


def report(folder: Path | str, *arguments: str) -> dict[str, Any]:
    done = attn("rank-collapse", str(folder), "--token-ids", IDS, "--variants", "transformer", *arguments, "-q", "--format", "json")  # fmt: skip
    assert done.code == 0, done.err
    return json.loads(done.out)


def values(found: dict[str, Any], metric: str, after: str | None = None) -> dict[int, float]:
    return {
        row["layer"]: row["value"]
        for row in found["rows"]
        if row["metric"] == metric and row.get("after") == after
    }


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["exact", "float64"])
def test_steps_are_those_of_the_models_own_states(folder: Path, arithmetic: str) -> None:
    states, _ = states_of(folder)
    found = report(folder, "--metric", "depth", "--arithmetic", arithmetic)
    pairs = list(itertools.pairwise(states))
    turned, added = values(found, "block_influence"), values(found, "update_ratio")
    assert turned == pytest.approx({k + 1: influence(*pair) for k, pair in enumerate(pairs)})
    assert added == pytest.approx({k + 1: ratio(*pair) for k, pair in enumerate(pairs)})
    variance = {layer: np.log10(state.var()) for layer, state in enumerate(states)}
    assert values(found, "log10_variance") == pytest.approx(variance)


@pytest.mark.slow
def test_steps_over_several_blocks(folder: Path) -> None:
    states, _ = states_of(folder)
    found = report(folder, "--metric", "block_influence", "--blocks", "3")
    expected = {3: influence(states[0], states[3]), 4: influence(states[1], states[4])}
    assert values(found, "block_influence") == pytest.approx(expected)
    assert {row["blocks"] for row in found["rows"] if row["metric"] == "block_influence"} == {3}


@pytest.mark.parametrize("arithmetic", ["exact", "float64"])
def test_attention_and_mlp_apart(folder: Path, arithmetic: str) -> None:
    states, inner = states_of(folder)
    found = report(folder, "--metric", "update_ratio", "--sub-blocks", "--arithmetic", arithmetic)
    attention = {k + 1: ratio(states[k], inner[k]) for k in range(4)}
    mlp = {k + 1: ratio(inner[k], states[k + 1]) for k in range(4)}
    assert values(found, "update_ratio", "attention") == pytest.approx(attention)
    assert values(found, "update_ratio", "mlp") == pytest.approx(mlp)
    whole = {k + 1: ratio(states[k], states[k + 1]) for k in range(4)}
    assert values(found, "update_ratio") == pytest.approx(whole)


@pytest.mark.slow
def test_in_blocks_that_begin_with_an_mlp_each_sub_block_has_a_name_of_its_own() -> None:
    """Conformers: half an MLP, attention, a convolution, half an MLP; the states are those that their norms are given."""
    model = build_model("wav2vec2-conformer", {"tiny": ""}, seed=0, dtype=torch.float64)
    inputs = make_example_inputs(model)
    seen: dict[str, list[np.ndarray]] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda _m, given, *_: seen.setdefault(name, []).append(given[0][0].numpy())

    for layer in model.encoder.layers:
        layer.register_forward_pre_hook(keep("start"))
        for name in ("self_attn_layer_norm", "conv_module", "ffn2_layer_norm"):
            getattr(layer, name).register_forward_pre_hook(keep(name))
        layer.register_forward_hook(lambda _m, _a, out: keep("end")(_m, (out,)))
    with torch.no_grad(), force_float64():
        model(**inputs)
    kept = dict(seen)
    seen.clear()

    found = attncli.rank_collapse(
        model, inputs=[inputs], metric="update_ratio", sub_blocks=True, variants="transformer"
    )
    told: dict[str, list[float | None]] = {}
    for row in (row for row in found.rows if row.metric == "update_ratio"):
        told.setdefault(str(row.keys.get("after")), []).append(row.value)
    states = [
        kept[place]
        for place in ("start", "self_attn_layer_norm", "conv_module", "ffn2_layer_norm", "end")
    ]
    for name, (before, after) in zip(
        ("mlp", "attention 2", "attention 3", "mlp 4"), itertools.pairwise(states), strict=True
    ):
        assert told[name] == pytest.approx(list(map(ratio, before, after))), name


@pytest.mark.slow
def test_a_step_between_states_of_other_tokens_is_null_with_that_reason() -> None:
    """Inside its blocks LW-DETR's tokens stand in windows, side by side."""
    told = ("random:lw_detr_vit?tiny", "--sub-blocks", "--metric", "update_ratio", "--variants", "transformer")  # fmt: skip
    rows = json.loads(attn("rank-collapse", *told, "-q", "--format", "json").out)["rows"]
    steps = [row for row in rows if row["metric"] == "update_ratio" and "after" in row]
    assert {row["after"] for row in steps} == {"attention", "mlp"}
    assert {(row["value"], row["note"]) for row in steps} == {
        (None, "n/a: the state before it is of other tokens")
    }


def test_synthetic_networks_have_the_same_metrics() -> None:
    done = attn("rank-collapse", "--metric", "depth", "--layers", "6", "--tokens", "12", "--width", "16", "--heads", "2", "--seeds", "2", "--format", "json")  # fmt: skip
    found = json.loads(done.out)
    told = {finding["text"] for finding in found["findings"] if finding["about"] == "SAN"}
    assert any("interaction energy" in text for text in told)
    rows = [row for row in found["rows"] if row["metric"] == "block_influence"]
    assert {row["layer"] for row in rows} == set(range(1, 7))
    assert all(row["n"] == 2 for row in rows)


def test_the_curse_of_depth_is_told_apart_from_its_cure() -> None:
    """Branches of one size added after norms: the variance grows by sums, not by factors; without norms by factors."""

    def words(*options: str) -> str:
        done = attn("rank-collapse", "--metric", "log10_variance", "--variants", "transformer", "--layers", "12", "--seeds", "2", "--tokens", "16", "--width", "32", "--heads", "2", *options)  # fmt: skip
        return next(line for line in done.out.splitlines() if "variance grows" in line)

    assert "as layer^" in words("--norm", "layer")
    assert "exponentially" in words("--norm", "none").split("variance grows")[1][:15]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--blocks", "2"), "--blocks goes with metrics that compare two states"),
        (("--blocks", "0", "--metric", "update_ratio"), "at least 1"),
    ],
)
def test_blocks_need_steps(options: tuple[str, ...], words: str) -> None:
    done = attn("rank-collapse", *options)
    assert done.code == 2
    assert words in done.err
