"""What mixes tokens beside attention is found by trying, and nothing else is."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.analysis.heads.report_rows.layer_counts_by_mixer import LayerCounts, TokenMixing
from attncli.capture import verify_capture
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.other_mixers.token_mixers import (
    ModuleInputs,
    find_token_mixers,
    is_mixing_tokens,
    name_token_mixer_kind,
)
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)

TOKENS = 7


def found_in(kind: str, **sizes: str) -> tuple[list[tuple[int, str]], LayerCounts]:
    with silence_libraries():
        model = build_model(kind, {"tiny": "", **sizes}, seed=0)
        inputs = make_example_inputs(model)
        shapes = verify_capture(model, inputs).shapes
        stacks = find_block_stacks(model, inputs)
        found = find_token_mixers(model, stacks, inputs, shapes)
    return [(mixer.layer, mixer.kind) for mixer in found], LayerCounts.from_layer_stacks(
        stacks, shapes, found
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mixers", "headline"),
    [
        ("bert", [], ""),
        ("t5", [], ""),
        ("mixtral", [], ""),
        ("squeezebert", [], ""),
        ("lfm2", [(0, "short conv")], "1 of 2 layers attend; 1 is a short conv"),
        ("recurrent_gemma", [(0, "recurrent block"), (1, "recurrent block")], "1 of 3 layers attend; 2 are recurrent blocks"),
        ("falcon_h1", [(0, "mamba mixer"), (1, "mamba mixer")], "2 of 2 layers attend; 2 have mamba mixers beside attention"),
        ("convbert", [(0, "separable conv1d"), (1, "separable conv1d")], "2 of 2 layers attend; 2 have separable conv1ds beside attention"),
    ],
)  # fmt: skip
def test_mixers_of_known_models(kind: str, mixers: list[Any], headline: str) -> None:
    found, layers = found_in(kind)
    assert found == mixers
    assert layers.format_layer_counts() == headline


@pytest.mark.slow
def test_six_of_eight_layers_are_gated_delta_nets() -> None:
    """As the config says, which the search does not ask."""
    with silence_libraries():
        kinds = build_model("qwen3_next", {"tiny": "", "layers": "8"}, seed=0).config.layer_types
    found, layers = found_in("qwen3_next", layers="8")
    assert [layer for layer, _ in found] == [
        layer for layer, kind in enumerate(kinds) if kind == "linear_attention"
    ]
    assert layers.format_layer_counts() == "2 of 8 layers attend; 6 are gated delta nets"
    assert layers.describe_unmeasured_mixers() == "gated delta nets in layers 0-2, 4-6"


def test_layers_that_mix_nothing_are_counted_too() -> None:
    census = LayerCounts(5, 1, 3, (TokenMixing("h", "self", True, (1,)), TokenMixing("h", "lstm", False, (0,))))  # fmt: skip
    assert census.format_layer_counts() == "1 of 5 layers attend; 1 is a lstm; 3 mix no tokens"


class Shift(nn.Module):
    def forward(self, states: Tensor) -> Tensor:
        return states.roll(1, dims=1)


class Fourier(nn.Module):
    def forward(self, states: Tensor) -> Tensor:
        return torch.fft.fft(states, dim=1).real


class Sorted(nn.Module):
    """Experts of their own: each token alone, in an order that depends on all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.Parameter(torch.randn(2, 4, 4))

    def forward(self, states: Tensor) -> Tensor:
        out = torch.empty_like(states)
        chosen = states[..., 0] > 0
        for expert, part in zip(self.experts, (chosen, ~chosen), strict=True):
            out[part] = states[part] @ expert
        return out


class Drawn(nn.Module):
    """Another answer at every call says nothing."""

    def forward(self, states: Tensor) -> Tensor:
        return states + torch.rand_like(states)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Shift(), True),
        (Fourier(), True),
        (nn.GRU(4, 4, batch_first=True), True),
        (Sorted(), False),
        (Drawn(), False),
        (nn.LayerNorm(4), False),
        (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)), False),
    ],
)
def test_what_mixes_tokens(module: nn.Module, expected: bool) -> None:
    states = torch.randn(1, TOKENS, 4, generator=torch.Generator().manual_seed(0))
    kept = states.clone()
    with torch.no_grad():
        assert is_mixing_tokens(module, ModuleInputs((states,), {}), TOKENS) is expected
        assert (
            is_mixing_tokens(module, ModuleInputs((), {"hidden_states": states}), TOKENS) is False
            or expected
        )
    assert torch.equal(states, kept)


def test_a_state_with_as_many_features_as_tokens_is_not_turned() -> None:
    """[query, head, feature]: the norm of a head's features mixes no tokens."""
    states = torch.randn(3, 4, TOKENS, generator=torch.Generator().manual_seed(0))
    assert not is_mixing_tokens(nn.RMSNorm(TOKENS), ModuleInputs((states,), {}), TOKENS)


class Qwen9DecoderLayer(nn.Module):
    pass


class Qwen9GatedDeltaNet(nn.Module):
    pass


class Qwen9Mamba2Mixer(nn.Module):
    pass


class Qwen9Mixer(nn.Module):
    pass


@pytest.mark.parametrize(
    ("mixer", "kind"),
    [
        (Qwen9GatedDeltaNet, "gated delta net"),
        (Qwen9Mamba2Mixer, "mamba2 mixer"),
        (Qwen9Mixer, "short conv mixer"),
    ],
)
def test_mixers_are_called_what_their_classes_are(mixer: type[nn.Module], kind: str) -> None:
    assert name_token_mixer_kind(mixer(), "inner.short_conv", Qwen9DecoderLayer()) == kind
