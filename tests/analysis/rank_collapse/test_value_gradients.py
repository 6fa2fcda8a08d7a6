"""Gradients of attention alone against torch's autograd, and how the outlier of attention keeps them large."""

from typing import Any

import numpy as np
import pytest
import torch
from commands import attn as command

import attncli as attn
from attncli.analysis.rank_collapse.value_gradients import (
    GRADIENT,
    compute_value_gradients_of_network,
)
from attncli.networks.ablation_variants import AblationSwitches
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

torch.set_num_threads(1)


def by_autograd(network: GeneratedNetwork, outlier: float, visible: np.ndarray) -> list[float]:
    """log10 of the norms of all Jacobians by W_V, through a pass whose maps are constants."""
    spec = network.spec
    x = torch.from_numpy(network.embeddings())
    layers = [network.layer_weights(index) for index in range(spec.layers)]
    values = [torch.from_numpy(layer.w_v[0]).requires_grad_() for layer in layers]
    for layer, value in zip(layers, values, strict=True):
        seen = x.detach().numpy()
        logits = (seen @ layer.w_q[0]) @ (seen @ layer.w_k[0]).T / np.sqrt(spec.head_width)
        held = torch.softmax(torch.from_numpy(np.where(visible, logits, -np.inf)), -1) - outlier
        x = held @ x @ value @ torch.from_numpy(layer.w_o[0])
    squares = [0.0] * spec.layers
    for entry in x.flatten():
        for index, found in enumerate(torch.autograd.grad(entry, values, retain_graph=True)):
            squares[index] += float(found.square().sum())
    return [0.5 * float(np.log10(square)) for square in squares]


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_norms_are_those_of_autograd(mask: str, remove: bool) -> None:
    spec = NetworkSpec(layers=3, tokens=6, width=5, heads=1, mask=mask)
    network = GeneratedNetwork(spec, 2)
    switches = AblationSwitches(skip=False, mlp=False, mlp_skip=False, remove_outlier=remove)
    visible = np.tril(np.ones((6, 6), bool)) if mask == "causal" else np.ones((6, 6), bool)
    expected = by_autograd(network, 1 / 6 if remove else 0.0, visible)
    assert compute_value_gradients_of_network(network, switches, "") == pytest.approx(
        expected, rel=1e-9
    )


def test_the_outlier_keeps_gradients_large_the_more_the_longer_the_text() -> None:
    """Mind the Gap: without it they fall with the number of tokens, with it they do not."""
    report = attn.rank_collapse(layers=2, width=32, heads=1, sweep="tokens=16:256:2", variants=["SAN"], remove_outlier=True, seeds=2, gradients=True)  # fmt: skip
    first: dict[tuple[Any, Any], float] = {
        (row.variant, row.keys["tokens"]): row.value
        for row in report.rows
        if row.metric == GRADIENT and row.layer == 0
    }
    assert abs(first["SAN", 256] - first["SAN", 16]) < 0.1
    assert first["SAN-outlier", 256] < first["SAN-outlier", 16] - 0.3


def test_what_is_no_product_of_two_norms_is_null() -> None:
    report = attn.rank_collapse(layers=2, width=8, heads=2, sweep="tokens=4:8", variants=["SAN", "SAN+skip"], seeds=1, gradients=True)  # fmt: skip
    rows = [row for row in report.rows if row.metric == GRADIENT]
    assert len(rows) == 4
    assert all(row.value is None and (row.note or "").startswith("n/a: a product") for row in rows)


def test_gradients_stand_beside_a_sweep() -> None:
    done = command("rank-collapse", "--gradients")
    assert done.code == 2
    assert "--gradients needs a range of sizes: add --sweep" in done.err
    done = command("rank-collapse", "random:bert?layers=1", "--gradients")
    assert "--gradients goes with synthetic networks" in done.err
