"""Maps of scans that are written inside a forward: the recurrence's own, over several blocks; and what is none is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.capture import AttentionSite, Strip
from attncli.capture.linear_attention.linear_attention_capture import (
    capture_linear_attention,
    find_linear_attention_layers,
)
from attncli.capture.linear_attention.linear_attention_heads import LinearAttentionLayers
from attncli.capture.other_mixers.token_mixers import TokenMixer
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.errors import InputError
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)

PROBE = 12


def maps_in(
    model: nn.Module, layers: LinearAttentionLayers, inputs: Any, tokens: int
) -> tuple[dict[AttentionSite, Tensor], dict[AttentionSite, float], Any]:
    """[head, query, key] of every layer, by how much of itself A v misses y, and what the model gives."""
    maps: dict[AttentionSite, Tensor] = {}

    def take(site: AttentionSite, strip: Strip) -> None:
        assert strip.signed_map is not None
        heads = strip.signed_map.shape[1]
        whole = maps.setdefault(site, strip.signed_map.new_zeros((heads, tokens, tokens)))
        rows = slice(strip.first_query, strip.first_query + strip.weights.shape[2])
        whole[:, rows, : strip.weights.shape[3]] = strip.signed_map[0]

    plan = layers.select_measured_heads(None, lambda layer, head: True)
    with (
        torch.no_grad(),
        capture_linear_attention(model, plan.layers, plan.heads, take, 2**12) as run,
    ):
        found = model(**inputs)
    return maps, run, found


# --- lightning attention


def lightning(dtype: torch.dtype = torch.float64) -> tuple[nn.Module, TokenMixer, str]:
    with silence_libraries():
        model = build_model("minimax", {"tiny": "", "block_size": 8}, seed=0, dtype=dtype)
    path = next(
        name
        for name, part in model.named_modules()
        if type(part).__name__ == "MiniMaxLightningAttention"
    )
    module = model.get_submodule(
        path
    )  # its decays are kept as they were rounded to float32: here they are not
    factors = module.decay_factors(module.slope_rate)
    module.query_decay, module.key_decay, module.diagonal_decay = factors
    return model, TokenMixer("layers", 0, "lightning attention", (path,)), path


def test_lightning_attention_by_its_recurrence() -> None:
    """S_t = e^{-s} S_{t-1} + k_t v_t^T, y_t = q_t S_t: over three blocks, though it was found on less than two."""
    tokens, given = 20, {}
    model, mixer, path = lightning()
    module = model.get_submodule(path)
    with silence_libraries(), force_float64(), torch.no_grad():
        layers = find_linear_attention_layers(
            model, [mixer], make_example_inputs(model, PROBE), PROBE
        )
        longer = make_example_inputs(model, tokens)
        plain = model(**longer)[0]
        module.register_forward_pre_hook(
            lambda _, args, kwargs: given.update(x=(args or (kwargs["hidden_states"],))[0]),
            with_kwargs=True,
        )
        maps, missed, found = maps_in(model, layers, longer, tokens)
        sides = module.act_fn(module.qkv_proj(given["x"])).reshape(
            tokens, module.num_attention_heads, -1
        )
    assert torch.equal(plain, found[0])
    assert [layer.mixer_function_name for layer in layers.layers] == ["forward: attn_output"]
    query, key, _ = sides.split(module.head_dim, dim=-1)
    wanted = torch.zeros(module.num_attention_heads, tokens, tokens, dtype=torch.float64)
    for head in range(module.num_attention_heads):
        decay = (-module.slope_rate[head, 0, 0]).exp()
        state = torch.zeros(module.head_dim, tokens, dtype=torch.float64)  # a column for each value
        for t in range(tokens):
            state = decay * state
            state[:, t] += key[t, head]
            wanted[head, t] = query[t, head] @ state
    (weights,) = maps.values()
    assert (weights - wanted).abs().max() <= 1e-13 * wanted.abs().max()
    assert not weights.triu(1).any()
    assert max(missed.values()) <= 1e-12


def test_in_single_precision_too() -> None:
    model, mixer, _ = lightning(torch.float32)
    with silence_libraries(), torch.no_grad():
        layers = find_linear_attention_layers(
            model, [mixer], make_example_inputs(model, PROBE), PROBE
        )
        _, missed, _ = maps_in(model, layers, make_example_inputs(model, 20), 20)
    assert len(missed) == 1
    assert max(missed.values()) <= 1e-5


# --- forwards of our own


class Scan(nn.Module):
    """A decaying sum over tokens, with its loop in the forward."""

    def __init__(self) -> None:
        super().__init__()
        self.made = nn.Linear(6, 6)
        self.gate = nn.Linear(6, 6)
        self.out = nn.Linear(6, 6)

    def forward(self, states: Tensor) -> Tensor:
        values = torch.relu(self.made(states))
        decay = torch.sigmoid(self.gate(states))
        kept, held = [], torch.zeros_like(values[:, 0])
        for t in range(values.shape[1]):
            held = self.step(decay[:, t], held, values[:, t])
            kept.append(held)
        scanned = torch.stack(kept, dim=1)
        return torch.tanh(self.out(scanned))

    def step(self, decay: Tensor, held: Tensor, value: Tensor) -> Tensor:
        return decay * held + value


class Saturating(Scan):
    def step(self, decay: Tensor, held: Tensor, value: Tensor) -> Tensor:
        return torch.tanh(decay * held + value)


class Chancy(Scan):
    def step(self, decay: Tensor, held: Tensor, value: Tensor) -> Tensor:
        return decay * held + value * torch.rand(())


class Sorting(Scan):
    """After all that it computes, tokens change their places."""

    def forward(self, states: Tensor) -> Tensor:
        values = torch.relu(self.made(states))
        backwards = torch.flip(values, dims=[1])
        return torch.tanh(self.out(backwards))


class SortingMethod(Scan):
    def forward(self, states: Tensor) -> Tensor:
        values = torch.relu(self.made(states))
        return torch.tanh(self.out(self.sorted(values, values.mean())))

    def sorted(self, values: Tensor, _: Tensor) -> Tensor:
        return torch.flip(values, dims=[1])


class ScanMethod(Scan):
    def forward(self, states: Tensor) -> Tensor:
        values = torch.relu(self.made(states))
        return torch.tanh(self.out(self.scan(values, torch.sigmoid(self.gate(states)))))

    def scan(self, values: Tensor, decay: Tensor) -> Tensor:
        kept, held = [], torch.zeros_like(values[:, 0])
        for t in range(values.shape[1]):
            held = self.step(decay[:, t], held, values[:, t])
            kept.append(held)
        return torch.stack(kept, dim=1)


class Wrapped(nn.Module):
    def __init__(self, scan: Scan) -> None:
        super().__init__()
        self.scan = scan

    def forward(self, states: Tensor) -> Tensor:
        found: Tensor = self.scan(states)
        return found


def of_scan(kind: type[Scan]) -> tuple[nn.Module, LinearAttentionLayers]:
    torch.manual_seed(0)
    model = Wrapped(kind()).double().requires_grad_(False)
    inputs = {"states": torch.randn(1, PROBE, 6, dtype=torch.float64)}
    return model, find_linear_attention_layers(
        model, [TokenMixer("0", 0, "scan", ("scan",))], inputs, PROBE
    )


def test_each_channel_has_the_products_of_its_decays() -> None:
    model, layers = of_scan(Scan)
    assert [(layer.mixer_function_name, layer.has_single_channel_heads) for layer in layers.layers] == [("forward: scanned", True)]  # fmt: skip
    states = torch.randn(1, 17, 6, dtype=torch.float64)
    ((weights,), missed, found) = (lambda m, e, f: (list(m.values()), e, f))(*maps_in(model, layers, {"states": states}, 17))  # fmt: skip
    assert torch.equal(found, model(states))
    decay = torch.sigmoid(model.get_submodule("scan.gate")(states))[0]
    for t in range(17):
        for s in range(t + 1):
            assert torch.allclose(weights[:, t, s], decay[s + 1 : t + 1].prod(dim=0), rtol=1e-13)
    assert max(missed.values()) <= 1e-12


def test_a_scan_in_a_method_is_found_as_one() -> None:
    _, layers = of_scan(ScanMethod)
    assert [(layer.mixer_function_name, layer.values.key) for layer in layers.layers] == [
        ("scan", 0)
    ]


@pytest.mark.parametrize("kind", [Saturating, Chancy, Sorting, SortingMethod])
def test_what_is_not_linear_or_never_the_same_or_only_sorts_has_none(kind: type[Scan]) -> None:
    _, layers = of_scan(kind)
    assert not layers.layers
    assert "no step of its forward" in layers.refusals["scan"]


def test_a_step_that_is_not_come_to_again_is_refused() -> None:
    """One token is another path through many a forward."""
    model, layers = of_scan(Scan)
    plan = layers.select_measured_heads(None, lambda layer, head: True)
    model.get_submodule("scan").forward = lambda states: states
    with (
        pytest.raises(InputError, match="does not run here"),
        torch.no_grad(),
        capture_linear_attention(model, plan.layers, plan.heads, lambda *_: None, 2**12),
    ):
        model(torch.randn(1, 5, 6, dtype=torch.float64))
