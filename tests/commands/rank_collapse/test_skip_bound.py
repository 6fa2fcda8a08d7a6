"""What paths of length 0 keep apart, against the residual: closed forms of networks whose skip carries X unchanged."""

from typing import Any

import numpy as np
import pytest

import attncli as attn
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

SIZES: dict[str, Any] = {"layers": 3, "tokens": 9, "width": 8, "heads": 2}
NAMES = ("skip_residual", "rest_residual", "residual_lower_bound", "output_residual")


def numbers(report: Any) -> dict[str, float]:
    return {row.metric: row.value for row in report.rows if row.metric in NAMES}


def apart(x: np.ndarray) -> float:
    return float(np.linalg.norm(x - x.mean(axis=0)))


def forward(seed: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """X_0 and X_L of attention with skips, in plain numpy."""
    spec = NetworkSpec(**SIZES, init_scale=scale)
    network = GeneratedNetwork(spec, seed)
    start = x = network.embeddings()
    for index in range(spec.layers):
        layer = network.layer_weights(index)
        update = np.zeros_like(x)
        for head in range(spec.heads):
            logits = (x @ layer.w_q[head]) @ (x @ layer.w_k[head]).T / np.sqrt(spec.head_width)
            shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
            maps = shifted / shifted.sum(axis=1, keepdims=True)
            update += maps @ x @ layer.w_v[head] @ layer.w_o[head]
        x = x + update
    return start, x


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [0.2, 1.0, 2.0])
def test_paths_of_length_0_are_the_input_itself(seed: int, scale: float) -> None:
    start, end = forward(seed, scale)
    found = numbers(attn.paths(**SIZES, init_scale=scale, seed=seed, seeds=1))
    whole = float(np.linalg.norm(end))
    assert found["skip_residual"] == pytest.approx(apart(start) / whole, rel=1e-9)
    assert found["rest_residual"] == pytest.approx(apart(end - start) / whole, rel=1e-9)
    assert found["output_residual"] == pytest.approx(apart(end) / whole, rel=1e-9)
    assert found["residual_lower_bound"] <= found["output_residual"] * (1 + 1e-12)


def test_small_weights_leave_the_skip_to_hold_tokens_apart_and_no_skip_has_no_bound() -> None:
    held = numbers(attn.paths(**SIZES, init_scale=0.1, seeds=1))
    assert 0.9 < held["residual_lower_bound"] < held["output_residual"] <= 1.0
    assert numbers(attn.paths(**SIZES, skip=False, seeds=1)) == {}


def test_a_models_bound_holds_too() -> None:
    found = numbers(attn.paths("random:bert?layers=2&width=16&heads=2", random_tokens=8))
    assert found["residual_lower_bound"] <= found["output_residual"]
    assert found["residual_lower_bound"] == pytest.approx(
        found["skip_residual"] - found["rest_residual"]
    )
