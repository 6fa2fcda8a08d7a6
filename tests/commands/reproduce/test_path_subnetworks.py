"""The network and its sub-networks against the same written out in numpy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attncli.commands.reproduce.path_subnetworks import (
    layer_norm_without_weights,
    run_path_subnetworks,
)
from attncli.commands.reproduce.sequence_labeller import TokenClassifier, build_token_classifier
from attncli.commands.reproduce.tasks import TASKS, Sizes
from attncli.commands.reproduce.train_labeller import build_training_plan, train_labeller

Array = NDArray[np.float64]
SIZES = Sizes(layers=3, heads=2, width=12)
EPSILON = 1e-12
"""BERT's own, which the published sub-networks' norms have too."""


@pytest.fixture(params=["sort", "convex-hull"])
def case(request: pytest.FixtureRequest) -> tuple[TokenClassifier, torch.Tensor]:
    """A network with gains and biases that are not those of the beginning, in float64."""
    task = TASKS[request.param]()
    network = build_token_classifier(task, SIZES, 0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "orm" in name or "bias" in name:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    inputs = torch.from_numpy(task.draw(np.random.default_rng(2), 4).inputs)
    return network.requires_grad_(False), inputs.double() if inputs.is_floating_point() else inputs


def arrays(module: Any) -> dict[str, Array]:
    return {name: parameter.numpy() for name, parameter in module.named_parameters()}


def norm(x: Array, gain: Array | float = 1.0, bias: Array | float = 0.0) -> Array:
    apart = x - x.mean(axis=-1, keepdims=True)
    spread = np.square(apart).mean(axis=-1, keepdims=True)
    return apart / np.sqrt(spread + EPSILON) * gain + bias


def heads_of(block: Any, x: Array) -> list[Array]:
    """What each head adds to the sum in front of the output's bias."""
    w = arrays(block)
    width = x.shape[-1] // SIZES.heads
    found = []
    for head in range(SIZES.heads):
        own = slice(head * width, (head + 1) * width)
        q, k, v = (
            x @ w[f"self.{name}.weight"][own].T + w[f"self.{name}.bias"][own]
            for name in ("query", "key", "value")
        )
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(width)
        maps = np.exp(logits - logits.max(axis=-1, keepdims=True))
        maps /= maps.sum(axis=-1, keepdims=True)
        found.append(maps @ v @ w["output.dense.weight"][:, own].T)
    return found


def test_a_block_is_the_norm_of_its_input_and_its_attention(case: Any) -> None:
    network, inputs = case
    x = network.embedding(inputs).numpy()
    for block in network.blocks:
        w = arrays(block)
        total = sum(heads_of(block, x)) + w["output.dense.bias"] + x
        x = norm(total, w["output.LayerNorm.weight"], w["output.LayerNorm.bias"])
    assert np.allclose(network.compute_final_states(inputs), x, rtol=0, atol=1e-12)
    logits = x @ network.classifier.weight.numpy().T
    assert np.allclose(network(inputs), logits, rtol=0, atol=1e-12)


def by_hand(network: TokenClassifier, inputs: torch.Tensor, path: tuple[int, ...]) -> Array:
    """Layers of the path alone: one head's output, no skip, a norm that has learned nothing."""
    x: Array = network.embedding(inputs).numpy()
    for block, choice in zip(network.blocks, path, strict=True):
        if choice:
            x = norm(heads_of(block, x)[choice - 1] + arrays(block)["output.dense.bias"])
    return x


def test_sub_networks_are_the_published_ones(case: Any) -> None:
    network, inputs = case
    paths = list(np.ndindex(3, 3, 3))
    for path, states in zip(paths, run_path_subnetworks(network, inputs, paths), strict=True):
        assert np.allclose(states, by_hand(network, inputs, path), rtol=0, atol=1e-11), path


def test_paths_come_back_in_their_order_and_more_than_once(case: Any) -> None:
    network, inputs = case
    several = run_path_subnetworks(network, inputs, [(1, 0, 2), (0, 0, 0), (1, 0, 2), (1, 1, 1)])
    alone = [
        run_path_subnetworks(network, inputs, [path])[0]
        for path in [(1, 0, 2), (0, 0, 0), (1, 1, 1)]
    ]
    assert torch.equal(several[0], alone[0])
    assert torch.equal(several[2], alone[0])
    assert torch.equal(several[1], network.embedding(inputs))
    assert torch.equal(several[3], alone[2])


def test_a_plain_norm_leaves_mean_zero_and_spread_one() -> None:
    states = layer_norm_without_weights(torch.arange(12, dtype=torch.float64).reshape(2, 6) ** 2)
    assert torch.allclose(states.mean(dim=-1), torch.zeros(2, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(states.square().mean(dim=-1), torch.ones(2, dtype=torch.float64))


def test_networks_of_one_seed_are_the_same_whatever_was_drawn_before() -> None:
    task = TASKS["sort"]()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one = build_token_classifier(task, SIZES, 3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    same, other = build_token_classifier(task, SIZES, 3), build_token_classifier(task, SIZES, 4)
    weights, same_weights, other_weights = (
        torch.cat([parameter.flatten() for parameter in network.parameters()])
        for network in (one, same, other)
    )
    assert torch.equal(weights, same_weights)
    assert not torch.equal(weights, other_weights)


def test_what_is_learned_depends_on_the_seed_alone() -> None:
    task = replace(TASKS["memorise"](), test_count=10, batch=5)
    found = [
        train_labeller(task, SIZES, build_training_plan("memorise", task, SIZES, 4, seed), seed)
        for seed in (1, 1, 2)
    ]
    outputs = [one.network(torch.from_numpy(found[0].test_examples.inputs)) for one in found]
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert np.array_equal(found[0].train_examples.labels, found[0].test_examples.labels)
