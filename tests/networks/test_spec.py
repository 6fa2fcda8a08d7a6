"""Networks that make no sense are refused in one sentence that names the option."""

import pytest
from commands import attn

from attncli.errors import UsageError
from attncli.networks.ablation_variants import (
    SETS,
    VARIANTS,
    make_variant_from_switches,
    parse_ablation_variants,
)
from attncli.networks.network_spec import NetworkSpec


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"layers": 0}, "`layers` must be from 1 to"),
        ({"tokens": -3}, "`tokens` must be from 1 to"),
        ({"key_width": 0}, "`key_width` must be from 1 to"),
        ({"init_scale": 0.0}, "`init_scale` must be from 1e-100"),
        ({"init_scale": float("nan")}, "`init_scale` must be from 1e-100"),
        ({"heads": 3}, "`heads=3` does not divide `width=64`"),
        ({"norm": "layre"}, "did you mean 'layer'"),
        ({"mask": "window"}, "window:W"),
        ({"mask": "window:0"}, "from 1 to"),
        ({"mask": "causal:3"}, "`mask='causal:3'`"),
        ({"attention": "sinkhorn:x"}, "sinkhorn:ROUNDS"),
        ({"attention": "sinkhorn", "mask": "causal"}, "identity"),
        ({"positions": "rope", "heads": 64}, "must be even"),
    ],
)
def test_impossible_networks_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("(", r"\(")):
        NetworkSpec(**given)  # type: ignore[arg-type]


def test_sizes_left_out_follow_from_the_others() -> None:
    spec = NetworkSpec(width=32, heads=4)
    assert (spec.head_width, spec.mlp_hidden_size) == (8, 128)
    assert NetworkSpec(heads=3, key_width=5).head_width == 5


def test_every_set_names_known_variants() -> None:
    assert all(name in VARIANTS for members in SETS.values() for name in members)


@pytest.mark.parametrize("name", VARIANTS)
def test_switches_and_names_describe_the_same_variants(name: str) -> None:
    switches = VARIANTS[name]
    mlp_skip = switches.mlp_skip if switches.mlp else None
    assert make_variant_from_switches(switches.skip, switches.mlp, mlp_skip) == {name: switches}


def test_a_single_switch_leaves_the_others_on() -> None:
    assert list(make_variant_from_switches(False, None, None)) == ["SAN+MLP"]
    assert list(make_variant_from_switches(None, None, False)) == ["SAN+skip+MLP-noskip"]


def test_contradicting_switches_are_refused() -> None:
    outcome = attn("rank-collapse", "--no-mlp", "--mlp-skip")
    assert outcome.code == 2
    assert "--mlp-skip needs the MLP that --no-mlp removes" in outcome.err


def test_names_keep_their_order_and_unknown_ones_are_refused() -> None:
    assert list(parse_ablation_variants(["transformer", "SAN"])) == ["transformer", "SAN"]
    with pytest.raises(UsageError, match="did you mean 'SAN\\+skip'"):
        parse_ablation_variants(["SAN+skpi"])
