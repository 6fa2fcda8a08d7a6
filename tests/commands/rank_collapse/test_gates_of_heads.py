"""Gates between heads and W_O: formulas written out, a trained form's own gates by hand, synthetic networks alike."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from commands import attn as command
from torch import Tensor, nn

import attncli as attn
from attncli.commands.rank_collapse.attention_output_gates import list_output_gate_metrics
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._gate_statistics import GateObservations
from attncli.networks.ablation_variants import AblationSwitches
from attncli.networks.block_forward import apply_attention
from attncli.networks.gated_heads import compute_gated_heads
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

torch.set_num_threads(1)


def by_hand(gate: np.ndarray, context: np.ndarray, into: np.ndarray, sink: np.ndarray) -> dict[str, list[float]]:  # fmt: skip
    """[head, query, value] each, as the definitions say, number by number."""
    heads, queries, width = context.shape
    gate = np.broadcast_to(gate, context.shape)
    found: dict[str, list[float]] = {name: [] for name in list_output_gate_metrics()}
    sizes = np.zeros((2, heads, queries))
    for h in range(heads):
        every = [gate[h, i, v] for i in range(queries) for v in range(width)]
        middle = [sum(gate[h, i, v] for i in range(queries)) / queries for v in range(width)]
        found["gate_mean"].append(sum(every) / len(every))
        found["gate_closed"].append(sum(g < 0.01 for g in every) / len(every))
        found["gate_sparsity"].append(1 - sum(every) ** 2 / (len(every) * sum(g * g for g in every)))  # fmt: skip
        moved = whole = 0.0
        for i in range(queries):
            own, still = gate[h, i] * context[h, i] @ into[h], middle * context[h, i] @ into[h]
            sizes[:, h, i] = np.sqrt(own @ own), np.sqrt(still @ still)
            moved, whole = moved + float((own - still) @ (own - still)), whole + float(own @ own)
        found["gate_effect"].append(math.sqrt(moved / whole))
        seen = [i for i in range(queries) if not math.isnan(sink[h, i])]
        pairs = np.array([[np.mean(gate[h, i]) for i in seen], [sink[h, i] for i in seen]])
        found["gate_sink_correlation"].append(float(np.corrcoef(pairs)[0, 1]))
    for name, one in zip(("gated_contribution", "held_contribution"), sizes, strict=True):
        shares = [[one[h, i] / sum(one[:, i]) for i in range(queries)] for h in range(heads)]
        found[name] = [float(np.median(row)) for row in shares]
    return found


@pytest.mark.parametrize("width", [1, 4])
def test_metrics_are_what_their_definitions_say(width: int) -> None:
    """`width` 1: one gate for a whole head."""
    stream = np.random.default_rng(0)
    gate = stream.uniform(size=(3, 9, width)) ** 4
    context, into = stream.standard_normal((3, 9, 4)), stream.standard_normal((3, 4, 7))
    sink = np.where(np.arange(9) == 0, np.nan, stream.uniform(size=(3, 9)))
    expected = by_hand(gate, context, into, sink)
    for name in list_output_gate_metrics():
        found = ATTENTION[name](GateObservations(gate, context, into, sink))
        assert found.tolist() == pytest.approx(expected[name], rel=1e-9), name


def test_extremes() -> None:
    context, into = np.ones((1, 6, 2)), np.ones((1, 2, 3))
    sink = np.linspace(0.0, 1.0, 6)[None]
    still = GateObservations(np.full((1, 6, 2), 0.3), context, into, sink)
    assert ATTENTION["gate_effect"](still) == pytest.approx(0.0, abs=1e-12)
    assert ATTENTION["gate_sparsity"](still) == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(ATTENTION["gate_sink_correlation"](still))
    shuts = GateObservations(np.repeat(1.0 - sink[..., None], 2, axis=2), context, into, sink)
    assert ATTENTION["gate_sink_correlation"](shuts) == pytest.approx(-1.0)
    shut = GateObservations(np.zeros((1, 6, 2)), context, into, sink)
    assert ATTENTION["gate_closed"](shut) == 1.0
    assert np.isnan(ATTENTION["gate_effect"](shut))


def qwen() -> Any:
    torch.manual_seed(3)
    config = hf.Qwen3NextConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, layer_types=["full_attention"] * 2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=24,
        num_experts=0, mlp_only_layers=[0, 1],
    )  # fmt: skip
    model = hf.Qwen3NextModel(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 20.0
    return model


IDS = torch.tensor([[3, 9, 4, 4, 17, 2, 30, 11, 7, 5]])


def seen_by_hand(model: Any) -> list[tuple[np.ndarray, ...]]:
    """Per layer: gate, context, W_O and sink column, from hooks and transformers' eager maps."""
    kept: dict[str, list[Tensor]] = {"q": [], "v": []}
    hooks = []
    for layer in model.layers:
        hooks.append(layer.self_attn.q_proj.register_forward_hook(lambda m, a, out: kept["q"].append(out[0])))  # fmt: skip
        hooks.append(layer.self_attn.v_proj.register_forward_hook(lambda m, a, out: kept["v"].append(out[0])))  # fmt: skip
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(IDS, output_attentions=True, use_cache=False).attentions
    for hook in hooks:
        hook.remove()
    found = []
    for layer, q, v, weights in zip(model.layers, kept["q"], kept["v"], maps, strict=True):
        gate = torch.sigmoid(q.view(10, 4, 16)[..., 8:]).transpose(0, 1)
        values = v.view(10, 2, 8).transpose(0, 1).repeat_interleave(2, 0)
        context = weights[0] @ values
        into = layer.self_attn.o_proj.weight.detach().T.reshape(4, 8, -1)
        sink = weights[0, :, :, 0].clone()
        sink[:, 0] = math.nan  # it sees itself alone
        found.append(tuple(each.double().numpy() for each in (gate, context, into, sink)))
    return found


def test_a_gated_models_gates_are_those_of_its_own_projection() -> None:
    model = qwen()
    expected = [by_hand(*layer) for layer in seen_by_hand(model)]
    report = attn.inspect_model(model, metric=["gates"], token_ids=[",".join(map(str, IDS[0].tolist()))])  # fmt: skip
    for row in report.rows:
        assert row.value == pytest.approx(expected[row.layer or 0][row.metric][row.head or 0], rel=1e-4), row  # fmt: skip
    assert len(report.rows) == 2 * 4 * len(list_output_gate_metrics())


def test_what_is_not_gated_says_so() -> None:
    report = attn.inspect_model("random:bert?layers=1&width=16&heads=2", metric=["gate_mean"], random_tokens=6)  # fmt: skip
    (note,) = {row.note for row in report.rows}
    assert note == "n/a: no sigmoid is seen that multiplies what the heads write"


class Tampered(nn.Module):
    """Twice the product: what is written is no longer the outputs times a sigmoid."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own

    def forward(self, x: Tensor) -> Any:
        return self.own(2.0 * x)


def test_a_product_that_is_not_a_gates_is_not_guessed() -> None:
    model = qwen()
    for layer in model.layers:
        layer.self_attn.o_proj = Tampered(layer.self_attn.o_proj)
    report = attn.inspect_model(model, metric=["gate_mean"], token_ids=["3,9,4,4"])
    assert all(row.value is None and "no sigmoid" in (row.note or "") for row in report.rows)


@pytest.mark.parametrize("kind", [{}, {"mask": "causal", "biases": True}, {"mask": "window:3", "norm": "layer"}, {"norm": "rms", "norm_position": "post", "positions": "rope"}])  # fmt: skip
def test_synthetic_gates_are_those_that_the_network_applies(kind: dict[str, Any]) -> None:
    """Times the heads' outputs, through W_O, they make what attention writes; the sink's column is a softmax."""
    spec = NetworkSpec(layers=1, tokens=7, width=12, heads=3, attention="gated", **kind)
    network = GeneratedNetwork(spec, 4)
    layer, state = network.layer_weights(0), SplitState.from_states(network.embeddings())
    found = compute_gated_heads(state, layer, spec)
    x = network.embeddings()
    if spec.norm != "none" and spec.norm_position == "pre":
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    written = apply_attention(SplitState.from_states(x), layer, spec, AblationSwitches())
    expected = written.common.value() + written.varying.value()
    ours = np.einsum("hqv,hvf->qf", found.gate * found.context, layer.w_o)
    assert ours + (0.0 if layer.b_o is None else layer.b_o) == pytest.approx(expected, rel=1e-9)
    assert found.gate == pytest.approx(1.0 / (1.0 + np.exp(-np.einsum("nf,hfv->hnv", x, layer.w_g))))  # fmt: skip
    if not kind:
        logits = np.einsum("nf,hfd,mg,hgd->hnm", x, layer.w_q, x, layer.w_k) / math.sqrt(
            spec.head_width
        )
        maps = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        assert found.sink == pytest.approx(maps[..., 0])
    else:
        assert np.isnan(found.sink).any() == (spec.visible_keys_per_query is not None)


def test_networks_are_measured_as_models_are() -> None:
    done = command("rank-collapse", "--attention", "gated", "--gates", "--layers", "2", "--tokens", "8", "--width", "8", "--heads", "2", "--seeds", "1", "--variants", "transformer", "--mask", "causal", "--format", "json", "-q")  # fmt: skip
    assert done.code == 0, done.err
    rows = [
        row for row in json.loads(done.out)["rows"] if row["metric"] in list_output_gate_metrics()
    ]
    assert len(rows) == 2 * 2 * len(list_output_gate_metrics())
    spec = NetworkSpec(layers=2, tokens=8, width=8, heads=2, attention="gated", mask="causal")
    network = GeneratedNetwork(spec, 0)
    layer = network.layer_weights(0)
    seen = compute_gated_heads(SplitState.from_states(network.embeddings()), layer, spec)
    expected = by_hand(seen.gate, seen.context, layer.w_o, seen.sink)
    for row in rows:
        if row["layer"] == 0:
            assert row["value"] == pytest.approx(expected[row["metric"]][row["head"]], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gates",), "--gates goes with --attention gated, not 'softmax'"),
        (("--gates", "--attention", "gated", "--sweep", "tokens=4:8"), "about the layers of one network"),
        (("random:bert?layers=1", "--gates"), "--gates goes with synthetic networks"),
    ],
)  # fmt: skip
def test_gates_go_with_gated_networks(arguments: tuple[str, ...], said: str) -> None:
    done = command("rank-collapse", *arguments)
    assert done.code == 2
    assert said in done.err
