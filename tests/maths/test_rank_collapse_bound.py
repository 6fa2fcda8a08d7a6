"""The theorem on random layers, and its closed form over layers."""

import math

import numpy as np
import pytest

from attncli.maths import rank_collapse_bound
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import composite_norm, infinity_norm, one_norm
from attncli.metrics.log10_residual_norm import log10_residual_norm
from attncli.networks.ablation_variants import VARIANTS
from attncli.networks.block_forward import run_block
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

REGION = 1.256
"""The one-layer step is proved where logits of one row differ by no more."""


@pytest.mark.slow
def test_the_one_layer_bound_holds_in_its_region() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for seed in range(2500):
        tokens, width, heads = (int(x) for x in rng.integers(2, [12, 9, 4]))
        scale = float(10 ** rng.uniform(-2, 0.5))
        spec = NetworkSpec(layers=1, tokens=tokens, width=width, heads=heads, key_width=3, init_scale=scale)  # fmt: skip
        network = GeneratedNetwork(spec, seed)
        layer = network.layer_weights(0)
        state = SplitState.from_states(network.embeddings() * float(10 ** rng.uniform(-2, 0.5)))
        residual = state.residual_to_token_mean.value()
        logits = (
            (residual @ layer.w_q)
            @ (residual @ layer.w_k).swapaxes(1, 2)
            / math.sqrt(spec.head_width)
        )
        if np.ptp(logits, axis=2).max() > REGION:
            continue
        inside += 1
        start = log10_residual_norm(state)
        after = log10_residual_norm(run_block(state, layer, spec, VARIANTS["SAN"]))
        constant = 10.0 ** rank_collapse_bound.compute_log10_attention_bound_factor(
            layer.w_q, layer.w_k, layer.w_v, layer.w_o
        )
        assert (
            after
            <= rank_collapse_bound.compute_log10_collapse_bound(math.log10(constant), start, 1)
            + 1e-9
        )
    assert inside >= 1000


def test_the_bound_of_many_layers_is_the_one_layer_step_repeated() -> None:
    start, log10_constant = -0.7, 0.4
    repeated = start
    for layer in range(1, 6):
        repeated = log10_constant + 3.0 * repeated
        assert rank_collapse_bound.compute_log10_collapse_bound(
            log10_constant, start, layer
        ) == pytest.approx(repeated)


def test_the_contraction_radius_is_the_fixed_point() -> None:
    """A residual of K^(-1/2) stays where it is."""
    assert rank_collapse_bound.compute_log10_collapse_bound(1.2, -0.6, 7) == pytest.approx(-0.6)


def test_bounds_beyond_floats_are_infinite() -> None:
    assert rank_collapse_bound.compute_log10_collapse_bound(1.0, -2.0, 10**4) == -math.inf
    assert rank_collapse_bound.compute_log10_collapse_bound(1.0, 2.0, 10**4) == math.inf


def test_norms_on_a_matrix_done_by_hand() -> None:
    matrix = np.array([[1.0, -2.0], [3.0, 4.0]])
    assert (one_norm(matrix), infinity_norm(matrix)) == (6.0, 7.0)
    assert composite_norm(matrix) == pytest.approx(math.sqrt(42.0))


@pytest.mark.parametrize("skip", [True, False])
def test_the_mlp_constant_bounds_the_mlp(skip: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        w_in, w_out = rng.standard_normal((4, 7)), rng.standard_normal((7, 4))
        common, residual = rng.standard_normal(4), rng.standard_normal((6, 4))

        def mlp(x: np.ndarray, w_in: np.ndarray = w_in, w_out: np.ndarray = w_out) -> np.ndarray:
            return np.maximum(x @ w_in, 0.0) @ w_out + (x if skip else 0.0)

        change = mlp(common + residual) - mlp(common)
        constant = 10.0 ** rank_collapse_bound.compute_log10_mlp_lipschitz_bound(
            w_in, w_out, 1.0, skip
        )
        assert composite_norm(change) <= constant * composite_norm(residual)
