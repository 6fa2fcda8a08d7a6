"""Maps of linear layers: complete, causal, the recurrence's own, found by trying; and nothing else is taken for one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.capture import AttentionSite, Strip
from attncli.capture.linear_attention.calls_inside_mixers import (
    KernelCall,
    record_calls_inside_mixers,
)
from attncli.capture.linear_attention.linear_attention_capture import (
    capture_linear_attention,
    find_linear_attention_layers,
)
from attncli.capture.linear_attention.linear_attention_heads import LinearAttentionLayers
from attncli.capture.linear_attention.linear_attention_maps import LinearAttentionMap
from attncli.capture.linear_attention.linearity_tests import find_value_tensor_argument
from attncli.capture.linear_attention.shortcuts_for_long_linear_maps import find_faster_map_methods
from attncli.capture.other_mixers.token_mixers import TokenMixer
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.errors import InputError
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)

PROBE = 12

CLASSES = {
    "qwen3_next": ("GatedDeltaNet", "torch_chunk_gated_delta_rule"),
    "qwen3_5_text": ("GatedDeltaNet", "torch_chunk_gated_delta_rule"),
    "olmo_hybrid": ("GatedDeltaNet", "torch_chunk_gated_delta_rule"),
    "kimi_linear": ("DeltaAttention", "chunk_kimi_delta_attention"),
    "mamba2": ("Mixer", "mamba2_chunk_scan"),
    "bamba": ("Mixer", "mamba2_chunk_scan"),
    "falcon_h1": ("Mixer", "mamba2_chunk_scan"),
    "granitemoehybrid": ("MambaLayer", "mamba2_chunk_scan"),
    "nemotron_h": ("Mamba2Mixer", "mamba2_chunk_scan"),
    "zamba2": ("MambaMixer", "mamba2_chunk_scan"),
    "mamba": ("Mixer", "mamba_selective_scan"),
    "jamba": ("MambaMixer", "mamba_selective_scan"),
    "falcon_mamba": ("Mixer", "mamba_selective_scan"),
    "zamba": ("MambaMixer", "mamba_selective_scan"),
    "rwkv": ("SelfAttention", "rwkv_linear_attention"),
    "lfm2": ("ShortConv", "causal_conv1d_fn"),
    "recurrent_gemma": ("RecurrentBlock", "rg_lru._rnn_scan"),
}
"""How the mixer's class ends, and the function whose argument it is linear in."""

CHUNKED = {kind for kind, (_, function) in CLASSES.items() if "chunk" in function}


@cache
def model_of(kind: str) -> nn.Module:
    with silence_libraries():
        model = build_model(kind, {"tiny": ""}, seed=0)
    if "experts" in str(model):
        model.set_experts_implementation("eager")  # the grouped product has no float64 kernel
    return model


@contextmanager
def in_precision(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    before = next(model.parameters()).dtype
    model.to(dtype)
    try:
        with silence_libraries(), force_float64() if dtype == torch.float64 else nullcontext():
            yield
    finally:
        model.to(before)


def mixers_named(model: nn.Module, ending: str) -> list[TokenMixer]:
    """The first two."""
    paths = [name for name, part in model.named_modules() if type(part).__name__.endswith(ending)]
    return [TokenMixer("layers", layer, "mixer", (path,)) for layer, path in enumerate(paths[:2])]


def found_in(kind: str, inputs: Mapping[str, Any]) -> LinearAttentionLayers:
    model = model_of(kind)
    return find_linear_attention_layers(model, mixers_named(model, CLASSES[kind][0]), inputs, PROBE)


def maps_of(
    kind: str, dtype: torch.dtype, tokens: int, heads: int = 3
) -> tuple[dict[AttentionSite, Tensor], dict[AttentionSite, float]]:
    """[head, query, key] of every layer that was found, and by how much of itself A v misses y."""
    model, maps = model_of(kind), {}
    short, longer = make_example_inputs(model, PROBE), make_example_inputs(model, tokens)

    def take(site: AttentionSite, strip: Strip) -> None:
        assert strip.signed_map is not None
        whole = maps.setdefault(site, strip.signed_map.new_zeros((heads, tokens, tokens)))
        rows = slice(strip.first_query, strip.first_query + strip.weights.shape[2])
        whole[:, rows, : strip.weights.shape[3]] = strip.signed_map[0]

    with in_precision(model, dtype):
        layers = found_in(kind, short)
        plan = layers.select_measured_heads(None, lambda layer, head: 0 <= head < heads)
        with torch.no_grad():
            plain = model(**longer)[0]
            with capture_linear_attention(model, plan.layers, plan.heads, take, 2**16) as run:
                watched = model(**longer)[0]
    assert torch.equal(plain, watched)
    assert {layer.mixer_function_name for layer in layers.layers} == {CLASSES[kind][1]}
    assert not layers.refusals
    return maps, run


def given_to(kind: str, tokens: int) -> KernelCall:
    """What the first mixer gives its kernel, in float64."""
    model, calls = model_of(kind), []
    ending, function = CLASSES[kind]

    def take(mixer: nn.Module, call: KernelCall) -> None:
        calls.extend(
            [call.copy_call_with_changed_floats(Tensor.clone)] if call.name == function else []
        )

    mixer = model.get_submodule(mixers_named(model, ending)[0].paths[0])
    with (
        in_precision(model, torch.float64),
        torch.no_grad(),
        record_calls_inside_mixers([mixer], take),
    ):
        model(**make_example_inputs(model, tokens))
    return calls[0]


QUICK = ("qwen3_next", "mamba2", "mamba", "rwkv", "lfm2", "recurrent_gemma")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in CLASSES],
)
def test_the_map_times_the_values_is_the_output(kind: str) -> None:
    """In float64 to twelve digits, in float32 to five; over several chunks where there are any."""
    tokens = 70 if kind in CHUNKED else 14
    maps, missed = maps_of(kind, torch.float64, tokens)
    assert max(missed.values()) <= 1e-12
    for weights in maps.values():
        assert not weights.triu(1).any()
        assert weights.dtype == torch.float64
    _, missed = maps_of(kind, torch.float32, 14)
    assert max(missed.values()) <= 1e-5


def first_map(kind: str, tokens: int) -> Tensor:
    maps, _ = maps_of(kind, torch.float64, tokens)
    return next(iter(maps.values()))


def test_gated_delta_rule_by_its_recurrence() -> None:
    """S_t = e^{g_t} (1 - β_t k_t k_t^T) S_{t-1} + β_t k_t v_t^T, y_t = S_t^T q_t / √d."""
    tokens = 70
    call = given_to("qwen3_next", tokens)
    query, key = (unit(side[0].repeat_interleave(2, dim=1)) for side in call.args[:2])
    g, beta = call.kwargs["g"][0], call.kwargs["beta"][0]
    wanted = torch.zeros(3, tokens, tokens, dtype=torch.float64)
    for head in range(3):
        state = torch.zeros(query.shape[-1], tokens, dtype=torch.float64)  # a column for each value
        for t in range(tokens):
            k, value = key[t, head], torch.eye(tokens, dtype=torch.float64)[t]
            state = state * g[t, head].exp()
            state = state + beta[t, head] * torch.outer(k, value - k @ state)
            wanted[head, t] = query[t, head] @ state / query.shape[-1] ** 0.5
    assert (first_map("qwen3_next", tokens) - wanted).abs().max() <= 1e-13 * wanted.abs().max()


def test_a_gated_unit_by_its_recurrence() -> None:
    """h_t = a_t h_{t-1} + x_t, channel by channel: a method of the mixer's part, which no function of its file is."""
    tokens = 14
    call = given_to("recurrent_gemma", tokens)
    decay = call.kwargs["recurrent_gate"][0]
    assert not bool(call.kwargs["reset"][0, 1:].any())
    wanted = torch.zeros(3, tokens, tokens, dtype=torch.float64)
    for channel in range(3):
        for t in range(tokens):
            if t:
                wanted[channel, t] = decay[t, channel] * wanted[channel, t - 1]
            wanted[channel, t, t] += 1.0
    assert (first_map("recurrent_gemma", tokens) - wanted).abs().max() <= 1e-13 * wanted.max()


def unit(vectors: Tensor) -> Tensor:
    return vectors / (vectors.square().sum(dim=-1, keepdim=True) + 1e-6).sqrt()


@pytest.mark.slow
def test_kimi_delta_attention_by_its_recurrence() -> None:
    """The same with a decay for each feature of the key."""
    tokens = 14
    call = given_to("kimi_linear", tokens)
    query, key = (unit(side[0]) for side in call.args[:2])
    g, beta = call.kwargs["g"][0], call.kwargs["beta"][0]
    wanted = torch.zeros(3, tokens, tokens, dtype=torch.float64)
    for head in range(3):
        state = torch.zeros(query.shape[-1], tokens, dtype=torch.float64)
        for t in range(tokens):
            k, value = key[t, head], torch.eye(tokens, dtype=torch.float64)[t]
            state = state * g[t, head].exp()[:, None]
            state = state + beta[t, head] * torch.outer(k, value - k @ state)
            wanted[head, t] = query[t, head] @ state / query.shape[-1] ** 0.5
    assert (first_map("kimi_linear", tokens) - wanted).abs().max() <= 1e-13 * wanted.abs().max()


@pytest.mark.slow
def test_mamba2_by_its_recurrence() -> None:
    """h_t = e^{Δ_t a} h_{t-1} + Δ_t b_t x_t, y_t = c_t h_t + d x_t."""
    tokens = 70
    call = given_to("mamba2", tokens)
    _, dt, a, b, c = call.args[:5]
    dt = nn.functional.softplus(dt[0] + call.kwargs["dt_bias"])
    dt = dt.clamp(*call.kwargs["dt_limit"])
    wanted = torch.zeros(3, tokens, tokens, dtype=torch.float64)
    for head in range(3):
        group = head * b.shape[2] // len(a)
        for j in range(tokens):
            state = dt[j, head] * b[0, j, group]
            for i in range(j, tokens):
                state = state * (dt[i, head] * a[head]).exp() if i > j else state
                wanted[head, i, j] = c[0, i, group] @ state
        wanted[head] += call.kwargs["D"][head] * torch.eye(tokens, dtype=torch.float64)
    assert (first_map("mamba2", tokens) - wanted).abs().max() <= 1e-13 * wanted.abs().max()


def test_mamba_by_its_recurrence() -> None:
    """Every channel by itself; the gate z scales its rows."""
    tokens = 14
    call = given_to("mamba", tokens)
    _, dt, a, b, c = call.args[:5]
    dt = nn.functional.softplus(dt[0] + call.kwargs["delta_bias"][:, None])
    gate = nn.functional.silu(call.kwargs["z"][0])
    wanted = torch.zeros(3, tokens, tokens, dtype=torch.float64)
    for channel in range(3):
        for j in range(tokens):
            state = dt[channel, j] * b[0, :, j]
            for i in range(j, tokens):
                state = state * (dt[channel, i] * a[channel]).exp() if i > j else state
                wanted[channel, i, j] = c[0, :, i] @ state
        wanted[channel] += call.kwargs["D"][channel] * torch.eye(tokens, dtype=torch.float64)
        wanted[channel] *= gate[channel][:, None]
    assert (first_map("mamba", tokens) - wanted).abs().max() <= 1e-13 * wanted.abs().max()


def test_rwkv_by_its_sums() -> None:
    """Weights e^{k_j - (i - 1 - j) w}, and e^{u + k_i} for the token itself, over their sum."""
    tokens = 14
    decay, first, key, _ = given_to("rwkv", tokens).args
    wanted = torch.zeros(3, tokens, tokens, dtype=torch.float64)
    for channel in range(3):
        for i in range(tokens):
            for j in range(i + 1):
                own = first[channel] if i == j else -(i - 1 - j) * decay[channel].exp()
                wanted[channel, i, j] = (key[0, j, channel] + own).exp()
    wanted /= wanted.sum(dim=-1, keepdim=True)
    assert (first_map("rwkv", tokens) - wanted).abs().max() <= 1e-13


class Mixing(nn.Module):
    """A mixer that calls `kernel`."""

    def forward(self, states: Tensor) -> Tensor:
        return kernel(states, states.cumsum(dim=1))


def kernel(states: Tensor, values: Tensor) -> Tensor:
    return values


@pytest.mark.parametrize("kind", ["qwen3_next", "mamba2", "mamba", "rwkv", "lfm2"])
def test_all_ways_to_a_map_are_one(kind: str) -> None:
    """From the state, by columns and by rows; of all channels or of some, in strips of any height."""
    short, call = given_to(kind, PROBE), given_to(kind, 30)
    with force_float64():
        values = find_value_tensor_argument(short, PROBE)
        assert values is not None
        ways = find_faster_map_methods(short, values)
        assert (ways.state is not None) == (kind in CHUNKED)
        assert ways.batched
        assert (ways.channels is not None) == (values.shared_axis is None)
        for heads in (None, [1, 3]):
            plain = whole(LinearAttentionMap(call, values, heads), 30)
            for rows, memory in ((7, 2**30), (30, 0)):
                found = whole(LinearAttentionMap(call, values, heads, ways), rows, memory)
                assert (found - plain).abs().max() <= 1e-13 * plain.abs().max()


def whole(maps: LinearAttentionMap, rows: int, memory: int = 2**30) -> Tensor:
    """Put together from strips; keys that they leave out are 0."""
    size = maps.tokens
    strips = maps.iter_map_rows(rows, memory)
    return torch.cat(
        [nn.functional.pad(s.weights, (0, size - s.weights.shape[-1])) for s in strips], 1
    )


BODIES = {
    "products of itself": lambda states, values: (values * values).cumsum(dim=1),
    "saturates": lambda states, values: values.cumsum(dim=1).tanh(),
    "no tokens reached": lambda states, values: values * states,
    "mixes channels": lambda states, values: values.cumsum(dim=1) @ torch.ones(6, 6).triu().to(values),
    "takes the loudest": lambda states, values: values.gather(1, values.abs().cummax(dim=1).indices),
    "ranks": lambda states, values: values.cummax(dim=1).values,
}  # fmt: skip


def call_of(body: Any) -> KernelCall:
    states, values = torch.randn(2, 1, PROBE, 6, generator=torch.Generator().manual_seed(0))
    return KernelCall("kernel", 0, body, (states, values), {})


@pytest.mark.parametrize("what", BODIES)
def test_what_is_not_linear_is_no_map(what: str) -> None:
    assert find_value_tensor_argument(call_of(BODIES[what]), PROBE) is None


def test_keys_and_queries_are_no_values() -> None:
    """Though the output is linear in each of them, and they have the same shape."""
    states = torch.randn(3, 1, PROBE, 2, 5, generator=torch.Generator().manual_seed(0))

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = torch.einsum("bihd,bjhd->bhij", query, key).tril()
        return torch.einsum("bhij,bjhd->bihd", scores, value)

    found = find_value_tensor_argument(KernelCall("attend", 0, attend, tuple(states), {}), PROBE)
    assert found is not None
    assert (found.key, found.token, found.shared_axis, found.wide) == (2, 1, 3, True)


def test_a_bias_is_no_part_of_the_map() -> None:
    call = call_of(lambda states, values: values.cumsum(dim=1) + states)
    found = find_value_tensor_argument(call, PROBE)
    assert found is not None
    strips = list(LinearAttentionMap(call, found).iter_map_rows(5, 2**20))
    assert torch.equal(
        torch.cat([s.weights for s in strips], 1)[0], torch.ones(PROBE, PROBE).tril()
    )


def test_a_refused_kind_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "kernel", BODIES["saturates"])
    model = nn.Sequential(Mixing())
    monkeypatch.setattr(BODIES["saturates"], "__module__", __name__)
    mixers = [TokenMixer("0", 0, "saturating mixer", ("0",))]
    found = find_linear_attention_layers(model, mixers, {"input": torch.randn(1, PROBE, 6)}, PROBE)
    assert not found.layers
    assert "tried: kernel" in found.refusals["saturating mixer"]


def test_another_kernel_on_a_longer_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was proved on the short input is held against every pass."""
    monkeypatch.setitem(globals(), "kernel", summed)
    model = nn.Sequential(Mixing())
    mixers = [TokenMixer("0", 0, "mixer", ("0",))]
    short, longer = ({"input": torch.randn(1, size, 6)} for size in (PROBE, 30))
    layers = find_linear_attention_layers(model, mixers, short, PROBE)
    plan = layers.select_measured_heads(None, lambda layer, head: True)
    with (
        torch.no_grad(),
        capture_linear_attention(model, plan.layers, plan.heads, lambda *_: None, 2**20) as run,
    ):
        model(**short)
        assert max(run.values()) <= 1e-6
        with pytest.raises(InputError, match="cannot be vouched for"):
            model(**longer)


def summed(states: Tensor, values: Tensor) -> Tensor:
    found = values.cumsum(dim=1)
    return found if values.shape[1] == PROBE else found.tanh()


def test_layers_that_do_not_run_are_refused() -> None:
    model = model_of("lfm2")
    with silence_libraries(), torch.no_grad():
        layers = found_in("lfm2", make_example_inputs(model, PROBE))
        plan = layers.select_measured_heads(None, lambda layer, head: head == 0)
        with (
            pytest.raises(InputError, match="does not"),
            capture_linear_attention(model, plan.layers, plan.heads, lambda *_: None, 2**20),
        ):
            pass


def test_code_is_left_as_it_was() -> None:
    from transformers.models.qwen3_next import modeling_qwen3_next as code

    before = code.torch_chunk_gated_delta_rule
    maps_of("qwen3_next", torch.float32, PROBE)
    assert code.torch_chunk_gated_delta_rule is before
