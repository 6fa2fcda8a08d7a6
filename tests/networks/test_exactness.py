"""log10 r against arbitrary precision, computed from the saved file by a slow loop that shares no code with us."""

import itertools
import math
from pathlib import Path

import pytest
from helpers import ALL_VARIANTS, curve, digits_for, oracle_curve, saved, worst_difference
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.networks.network_spec import NetworkSpec

TOLERANCE = 1e-6
"""Relative in log10 r; measured: 1e-8 at worst, most cases 1e-12."""

NORMS = [("none", "pre"), *itertools.product(("layer", "rms"), ("pre", "post"))]
MASKS = ("none", "causal", "window:2")
POSITIONS = ("none", "relative", "rope")
ATTENTIONS = [*itertools.product(("softmax", "gated"), MASKS), ("sinkhorn:3", "none")]


def difference(path: Path, spec: NetworkSpec, variant: str, seed: int = 0) -> float:
    ours = curve(saved(path, spec, seed), variant)
    digits = digits_for(ours, variant)
    return worst_difference(ours, oracle_curve(path, variant, digits), digits)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ALL_VARIANTS)
@pytest.mark.parametrize(("norm", "norm_position"), NORMS)
def test_every_variant_and_norm_agrees_with_arbitrary_precision(
    tmp_path: Path, variant: str, norm: str, norm_position: str
) -> None:
    spec = NetworkSpec(
        layers=3, tokens=4, width=6, heads=2, norm=norm, norm_position=norm_position, mlp_width=5
    )
    assert difference(tmp_path / "net", spec, variant) < TOLERANCE


@pytest.mark.parametrize(("attention", "mask"), ATTENTIONS)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("variant", ["SAN", "SAN+MLP-noskip", "transformer"])
def test_every_mask_position_and_attention_agrees_with_arbitrary_precision(
    tmp_path: Path, mask: str, positions: str, attention: str, variant: str
) -> None:
    spec = NetworkSpec(
        layers=4,
        tokens=5,
        width=4,
        heads=2,
        mlp_width=5,
        mask=mask,
        positions=positions,
        attention=attention,
        activation="gelu",
        biases=True,
    )
    assert difference(tmp_path / "net", spec, variant) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["SAN", "SAN+MLP"])
def test_six_layers_deep_below_any_float(tmp_path: Path, variant: str) -> None:
    spec = NetworkSpec(layers=6, tokens=8, width=6, heads=3, mlp_width=8)
    network = saved(tmp_path / "net", spec)
    ours = curve(network, variant)
    assert ours[-1] < -100
    digits = digits_for(ours, variant)
    assert worst_difference(ours, oracle_curve(tmp_path / "net", variant, digits), digits) < 1e-9


KINDS = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 4),
        "tokens": st.integers(1, 8),
        "width": st.integers(3, 8),
        "heads": st.integers(1, 3),
        "key_width": st.sampled_from([2, 4]),
        "mlp_width": st.integers(3, 8),
        "norm": st.sampled_from(["none", "layer", "rms"]),
        "norm_position": st.sampled_from(["pre", "post"]),
        "mask": st.sampled_from(MASKS),
        "positions": st.sampled_from(POSITIONS),
        "attention": st.sampled_from(["softmax", "gated"]),
        "activation": st.sampled_from(["relu", "gelu", "silu"]),
        "biases": st.booleans(),
        "init_scale": st.floats(-8.0, 3.0).map(lambda power: 10.0**power),
    }
)


@pytest.mark.slow
@settings(max_examples=120)
@given(kinds=KINDS, variant=st.sampled_from(list(ALL_VARIANTS)), seed=st.integers(0, 10**6))
def test_random_shapes_and_scales_agree_with_arbitrary_precision(
    tmp_path_factory: pytest.TempPathFactory, kinds: dict[str, object], variant: str, seed: int
) -> None:
    spec = NetworkSpec(**kinds)  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("random") / "net"
    ours = curve(saved(path, spec, seed), variant)
    digits = digits_for(ours, variant)
    assert worst_difference(ours, oracle_curve(path, variant, digits), digits) < TOLERANCE


@pytest.mark.parametrize("scale", [30.0, 1e3])
@pytest.mark.parametrize("variant", ["SAN", "SAN+skip", "SAN+MLP", "transformer"])
def test_saturated_attention_agrees_with_arbitrary_precision(
    tmp_path: Path, scale: float, variant: str
) -> None:
    """Logits of a million and more: one-hot rows, residuals of e^-million, tokens of very different size."""
    spec = NetworkSpec(layers=3, tokens=6, width=6, heads=2, mlp_width=6, init_scale=scale)
    assert difference(tmp_path / "net", spec, variant) < TOLERANCE


@pytest.mark.parametrize("variant", ["SAN", "SAN+MLP", "SAN+skip", "transformer"])
def test_float_subtraction_agrees_above_its_floor(tmp_path: Path, variant: str) -> None:
    spec = NetworkSpec(layers=5, tokens=8, width=8, heads=2, mlp_width=8)
    ours = curve(saved(tmp_path / "net", spec), variant)
    plain = oracle_curve(tmp_path / "net", variant, None)
    above = [(a, b) for a, b in zip(ours, plain, strict=True) if b > -9]
    assert len(above) >= 3
    assert all(math.isclose(a, b, abs_tol=1e-5) for a, b in above)
