"""Blocks are found where attention happens, and their states are the true ones."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import transformers as hf
from oracles.forwards.tiny_models import TINY
from torch import Tensor, nn
from toy_blocks import Block, model_of, some_input

from attncli.capture.model_structure.block_stack_names import choose_unique_block_stack_names
from attncli.capture.model_structure.blocks import (
    BlockStack,
    find_block_stacks,
    observe_block_states,
)
from attncli.errors import InputError

FOUND: Mapping[str, Mapping[str, list[str]]] = {
    "bert": {"encoder": [f"encoder.layer.{layer}" for layer in range(3)]},
    "distilbert": {"transformer": [f"transformer.layer.{layer}" for layer in range(3)]},
    "llama": {"layers": [f"layers.{layer}" for layer in range(3)]},
    "gpt2": {"h": [f"h.{layer}" for layer in range(3)]},
    "xlnet": {"layer": [f"layer.{layer}" for layer in range(3)]},
    "albert": {"encoder": ["encoder.albert_layer_groups.0.albert_layers.0"] * 3},
    "albert-grouped": {
        "encoder": [
            f"encoder.albert_layer_groups.{group}.albert_layers.{layer}"
            for group in (0, 0, 1, 1)
            for layer in (0, 1)
        ]
    },
    "t5": {
        "encoder": [f"encoder.block.{layer}" for layer in range(3)],
        "decoder": [f"decoder.block.{layer}" for layer in range(2)],
    },
}


def found(stacks: tuple[BlockStack, ...]) -> dict[str, list[str]]:
    return {stack.name: [call.name for call in stack.calls] for stack in stacks}


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_blocks_in_order_of_execution(name: str, implementation: str) -> None:
    model, inputs = TINY[name]()
    if model._can_set_attn_implementation():
        model.set_attn_implementation(implementation)
    assert found(find_block_stacks(model, inputs)) == FOUND[name]


def test_stages_are_stacks_of_their_own() -> None:
    config = hf.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=4
    )
    model = hf.SwinModel(config).eval()
    stacks = find_block_stacks(model, {"pixel_values": torch.randn(1, 3, 32, 32)})
    assert {stack.name: len(stack.calls) for stack in stacks} == {"layers.0": 2, "layers.1": 1}


def test_a_router_is_no_attention() -> None:
    """A softmax over experts stands in every block, and in the second stack stands nothing else."""

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return x + torch.softmax(self.router(x), dim=-1) * x

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model_of(Block)
            self.routed = nn.ModuleList(Routed() for _ in range(2)).double()

        def forward(self, x: Tensor) -> Tensor:
            x = self.model(x)
            for layer in self.routed:
                x = layer(x)
            return x

    assert list(found(find_block_stacks(Both(), some_input()))) == ["layers"]


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(InputError, match="Linear has no list of blocks that attend"):
        find_block_stacks(nn.Linear(6, 6).double(), {"input": some_input()["x"]})


def states(model: Any, inputs: Mapping[str, Tensor]) -> dict[tuple[str, int], Tensor]:
    seen: dict[tuple[str, int], Tensor] = {}

    def keep(stack: str, state: int, hidden: Tensor) -> None:
        assert (stack, state) not in seen
        seen[stack, state] = hidden.clone()

    with (
        observe_block_states(model, find_block_stacks(model, inputs), keep),
        torch.inference_mode(),
    ):
        model(**inputs)
    return seen


def test_states_are_before_the_final_norm() -> None:
    model, inputs = TINY["llama"]()
    seen = states(model, inputs)
    output = model(**inputs, output_hidden_states=True)
    for state, hidden in enumerate(output.hidden_states[:-1]):
        assert torch.equal(seen["layers", state], hidden)
    assert not torch.allclose(seen["layers", 3], output.hidden_states[-1])
    assert torch.equal(model.norm(seen["layers", 3]), output.last_hidden_state)


def test_tokens_come_second_whatever_the_model_does() -> None:
    """XLNet computes with the token before the batch."""
    model, inputs = TINY["xlnet"]()
    assert states(model, inputs)["layer", 0].shape == (1, 9, 24)


@pytest.mark.parametrize("batch", [1, 3])
def test_maps_and_windows_become_tokens(batch: int) -> None:
    config = hf.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[2], num_heads=[2], window_size=4
    )
    model = hf.SwinModel(config).eval()
    seen = states(model, {"pixel_values": torch.randn(batch, 3, 32, 32)})
    assert {hidden.shape for hidden in seen.values()} == {(batch, 64, 8)}


def test_nothing_stays_behind() -> None:
    model, inputs = model_of(Block), some_input()
    stacks = find_block_stacks(model, inputs)
    with observe_block_states(model, stacks, lambda *_: None), pytest.raises(RuntimeError):
        model(inputs["x"][..., :2])
    assert not any("forward" in vars(module) for module in model.modules())
    assert not hasattr(inputs["x"], "_attn_trace")


def test_a_forward_that_leaves_blocks_out_is_refused() -> None:
    model, inputs = model_of(Block, layers=3), some_input()
    stacks = find_block_stacks(model, inputs)
    model.layers = model.layers[:2]
    with (
        observe_block_states(model, stacks, lambda *_: None),
        pytest.raises(InputError, match="2 blocks ran instead of 3"),
    ):
        model(**inputs)


@pytest.mark.parametrize(
    ("containers", "names"),
    [
        (["encoder.layer"], ["encoder"]),
        (["layers"], ["layers"]),
        (["model.layers"], ["layers"]),
        (["model"], ["model"]),
        (["encoder.block", "decoder.block"], ["encoder", "decoder"]),
        (["vision.encoder.layers", "text.encoder.layers"], ["vision.encoder", "text.encoder"]),
        (["encoder.groups.0.layers"], ["encoder"]),
        (["encoder.stages.0.blocks", "encoder.stages.1.blocks"], ["stages.0", "stages.1"]),
        (["encoder.block.0", "encoder.block.1"], ["block.0", "block.1"]),
        (["encoder.text", "encoder.image"], ["text", "image"]),
        (["encoder.layers", "encoder.layers"], ["encoder", "encoder (2)"]),
    ],
)
def test_names(containers: list[str], names: list[str]) -> None:
    assert choose_unique_block_stack_names(containers, {"model"}) == names
