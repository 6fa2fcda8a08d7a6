"""What a network must not notice: the order of tokens, the basis of features, a common row."""

import numpy as np
import pytest
from helpers import ALL_VARIANTS, final_state

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.rank_collapse_bound import (
    compute_log10_attention_bound_factor,
    compute_log10_mlp_lipschitz_bound,
)
from attncli.metrics.log10_residual_frobenius import log10_residual_frobenius
from attncli.metrics.log10_residual_norm import log10_residual_norm
from attncli.networks.block_forward import run_block
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

SPEC = NetworkSpec(layers=5, tokens=12, width=8, heads=2)
EMBEDDINGS = GeneratedNetwork(SPEC, 0).embeddings()


@pytest.mark.parametrize("variant", ALL_VARIANTS)
def test_permuting_tokens_permutes_the_residual(variant: str) -> None:
    order = np.random.default_rng(1).permutation(SPEC.tokens)
    one = final_state(SPEC, variant).residual_to_token_mean
    other = final_state(SPEC, variant, EMBEDDINGS[order]).residual_to_token_mean
    assert abs(one.exponent - other.exponent) <= 1
    unit = 2.0 ** (other.exponent - one.exponent)
    np.testing.assert_allclose(other.mantissa * unit, one.mantissa[order], atol=1e-9)


def test_a_constant_row_passes_through_content_attention_as_a_constant_row() -> None:
    """With W_K c = 0 a common row c cannot change the attention, so the residual is what it was."""
    spec = NetworkSpec(layers=1, tokens=9, width=8, heads=2)
    network = GeneratedNetwork(spec, 3)
    layer = network.layer_weights(0)
    row = np.linspace(-3.0, 5.0, spec.width)
    blind = row @ layer.w_q  # [head, key]
    w_q = layer.w_q - row[:, None] * blind[:, None, :] / (row @ row)
    layer = layer._replace(w_q=w_q)
    without = run_block(
        SplitState.from_states(network.embeddings()), layer, spec, ALL_VARIANTS["SAN"]
    )
    shifted = run_block(
        SplitState.from_states(network.embeddings() + row), layer, spec, ALL_VARIANTS["SAN"]
    )
    assert log10_residual_norm(shifted) == pytest.approx(log10_residual_norm(without), abs=1e-12)


@pytest.mark.parametrize("variant", ["SAN", "SAN+skip", "SAN-outlier"])
@pytest.mark.parametrize("norm", ["none", "rms"])
def test_an_orthogonal_change_of_basis_leaves_the_frobenius_residual(
    variant: str, norm: str
) -> None:
    spec = NetworkSpec(layers=4, tokens=12, width=8, heads=2, norm=norm)
    network = GeneratedNetwork(spec, 5)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((8, 8)))[0]
    state = SplitState.from_states(network.embeddings())
    turned = SplitState.from_states(network.embeddings() @ turn)
    for index in range(spec.layers):
        layer = network.layer_weights(index)
        other = layer._replace(
            w_q=turn.T @ layer.w_q,
            w_k=turn.T @ layer.w_k,
            w_v=turn.T @ layer.w_v,
            w_o=layer.w_o @ turn,
        )
        state = run_block(state, layer, spec, ALL_VARIANTS[variant])
        turned = run_block(turned, other, spec, ALL_VARIANTS[variant])
    expected = log10_residual_frobenius(state)
    assert log10_residual_frobenius(turned) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("variant", ALL_VARIANTS)
def test_one_token_has_no_residual(variant: str) -> None:
    spec = NetworkSpec(layers=2, tokens=1, width=4, heads=2)
    assert final_state(spec, variant).residual_to_token_mean.is_zero()


def test_equal_tokens_stay_equal() -> None:
    same = np.tile(EMBEDDINGS[:1], (SPEC.tokens, 1))
    for variant in ("SAN", "transformer"):
        assert final_state(SPEC, variant, same).residual_to_token_mean.is_zero()


def test_small_blocks_of_logits_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = final_state(SPEC, "transformer").states
    monkeypatch.setattr(
        "attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row.BLOCK_ELEMENTS", 20
    )
    parts = final_state(SPEC, "transformer").states
    np.testing.assert_allclose(parts.value(), whole.value(), rtol=1e-12)


PAIRS = [("w_q", "w_k"), ("w_v", "w_o"), ("w_in", "w_out")]
"""Weights of which one may be 2^k larger where the other is 2^k smaller; relu passes factors on."""

TINIEST, LARGEST = -1074, 1015
"""2^-1074 is the smallest number, and has one digit."""


def few_digits(weights: np.ndarray) -> np.ndarray:
    """Whole numbers from -8 to 8: with the factor 2^-1074 they are still what they were."""
    return np.round(8.0 * weights / np.abs(weights).max())


@pytest.mark.parametrize("variant", ["SAN", "SAN+MLP", "transformer", "SAN-outlier"])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("power", [TINIEST, -1040, LARGEST])
@pytest.mark.parametrize("kinds", [{}, {"mask": "causal", "positions": "rope"}])
def test_how_large_single_weights_are_costs_no_digits(
    variant: str, pair: tuple[str, str], power: int, kinds: dict[str, str]
) -> None:
    spec = NetworkSpec(layers=3, tokens=6, width=8, heads=2, activation="relu", norm="rms", **kinds)  # type: ignore[arg-type]
    network = GeneratedNetwork(spec, 3)
    one = other = SplitState.from_states(network.embeddings())
    for index in range(spec.layers):
        layer = network.layer_weights(index)
        first, second = (few_digits(getattr(layer, name)) for name in pair)
        back = max(-1000, min(1000, -power))
        layer = layer._replace(**{pair[0]: first, pair[1]: np.ldexp(second, power + back - 6)})
        shifted = layer._replace(
            **{pair[0]: np.ldexp(first, power), pair[1]: np.ldexp(second, back - 6)}
        )
        one = run_block(one, layer, spec, ALL_VARIANTS[variant])
        other = run_block(other, shifted, spec, ALL_VARIANTS[variant])
    assert log10_residual_norm(other) == pytest.approx(log10_residual_norm(one), rel=1e-12, abs=1e-12)  # fmt: skip


@pytest.mark.parametrize("power", [-1074, -540, 0, 500, 1015])
def test_the_bound_s_constants_hold_for_weights_of_any_size(power: int) -> None:
    """A factor 2^k on one weight is one on the constant."""
    layer = GeneratedNetwork(SPEC, 3).layer_weights(0)
    weights = [few_digits(getattr(layer, name)) for name in ("w_q", "w_k", "w_v", "w_o")]
    usual = compute_log10_attention_bound_factor(*weights)
    weights[2] = np.ldexp(weights[2], power)
    shifted = compute_log10_attention_bound_factor(*weights)
    assert shifted - usual == pytest.approx(power * np.log10(2.0), rel=1e-12, abs=1e-12)
    w_in, w_out = few_digits(layer.w_in), few_digits(layer.w_out)
    usual = compute_log10_mlp_lipschitz_bound(w_in, w_out, 1.0, skip=False)
    shifted = compute_log10_mlp_lipschitz_bound(
        np.ldexp(w_in, power), np.ldexp(w_out, power), 1.0, skip=False
    )
    assert shifted - usual == pytest.approx(2 * power * np.log10(2.0), rel=1e-12, abs=1e-12)
