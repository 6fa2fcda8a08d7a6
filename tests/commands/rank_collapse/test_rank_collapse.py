"""What the study says about networks whose answer is known."""

import math

import pytest

from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.analysis.rank_collapse.metrics_over_layers import explain_missing_convergence_order
from attncli.analysis.rank_collapse.network_collapse import measure_network_collapse
from attncli.analysis.rank_collapse.size_sweep import (
    network_spec_at_swept_size,
    sweep_network_sizes,
)
from attncli.networks.ablation_variants import (
    VARIANTS,
    add_variants_without_outlier,
    parse_ablation_variants,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork
from attncli.records import Report, Row


def report(variants: str = "paper", seeds: int = 2, **kinds: object) -> Report:
    spec = NetworkSpec(**kinds)  # type: ignore[arg-type]
    networks = [GeneratedNetwork(spec, seed) for seed in range(seeds)]
    return measure_network_collapse(
        networks, parse_ablation_variants([variants]), ["log10_residual"], {"kind": "synthetic"}
    )


def value(report: Report, metric: str, variant: str, layer: int | None) -> Row:
    (row,) = [
        row
        for row in report.rows
        if (row.metric, row.variant, row.layer) == (metric, variant, layer)
    ]
    return row


@pytest.fixture(scope="module")
def default() -> Report:
    return report()


def test_pure_attention_is_cubic(default: Report) -> None:
    assert (value(default, "log10_residual", "SAN", 12).value or 0) < -1e4
    for layer in range(5, 13):
        assert 2.9 < (value(default, "order", "SAN", layer).value or 0) < 3.1
    assert "cubic: doubly exponential" in default.headline


@pytest.mark.parametrize("variant", ["SAN+skip", "transformer"])
def test_skips_hold_the_residual_up(default: Report, variant: str) -> None:
    assert (value(default, "log10_residual", variant, 12).value or -9) > -3
    finding = next(finding.text for finding in default.findings if finding.about == variant)
    assert finding.startswith("slow geometric decay: ×0.8")


def test_the_published_size_reaches_the_known_depth() -> None:
    """n = 64, D = 64, H = 4: log10 r about -1.7e5 at layer 12."""
    found = value(report("SAN", seeds=5), "log10_residual", "SAN", 12)
    assert found.value == pytest.approx(-1.7e5, rel=0.05)
    assert found.n == 5


@pytest.mark.parametrize(
    ("kinds", "word"),
    [
        ({"mask": "causal"}, "geometric decay"),
        ({"mask": "window:8"}, "r falls slowly"),
        ({"positions": "rope"}, "geometric decay"),
        ({"positions": "relative"}, "geometric decay"),
        ({"attention": "gated"}, "geometric decay"),
        ({"attention": "sinkhorn"}, "cubic"),
        ({"norm": "layer"}, "cubic"),
        ({"norm": "rms", "norm_position": "post"}, "cubic"),
        ({"biases": True}, "cubic"),
    ],
)
def test_what_keeps_the_law_and_what_breaks_it(kinds: dict[str, object], word: str) -> None:
    finding = report("SAN", **kinds).findings[0].text
    assert finding.startswith(word)


def test_removing_the_outlier_holds_the_residual_up() -> None:
    spec = NetworkSpec()
    variants = add_variants_without_outlier({"SAN": VARIANTS["SAN"]})
    found = measure_network_collapse([GeneratedNetwork(spec, 0)], variants, ["log10_residual"], {})
    assert (value(found, "log10_residual", "SAN-outlier", 12).value or -9) > -0.2
    assert found.findings[1].text.startswith(
        "does not collapse: tokens stay apart with the outlier removed"
    )


def test_the_bound_is_above_the_residual_it_bounds_and_null_where_the_theorem_is_silent() -> None:
    found = report(init_scale=0.05, layers=4)
    for variant in ("SAN", "SAN+MLP"):
        for layer in range(5):
            bound = value(found, "log10_bound", variant, layer).value
            norm = value(found, "log10_residual_norm", variant, layer).value
            assert bound is not None
            assert norm is not None
            assert norm <= bound + 1e-9
    silent = value(found, "log10_bound", "SAN+skip", None)
    assert silent.value is None
    assert (silent.note or "").startswith("n/a: the theorem covers")


def test_small_enough_networks_start_inside_the_radius() -> None:
    found = report("SAN", init_scale=0.01)
    start = value(found, "residual_start", "SAN", None).value or math.inf
    radius = value(found, "contraction_radius", "SAN", None).value or 0.0
    assert start < radius
    assert found.findings[0].text.endswith("the theorem's bound contracts")


def test_a_residual_of_zero_is_null_with_the_reason() -> None:
    found = report("SAN", tokens=1, layers=2)
    row = value(found, "log10_residual", "SAN", 2)
    assert row.value is None
    assert "zero" in (row.note or "")
    assert row.is_missing


@pytest.mark.slow
def test_a_thousand_layers_end_beyond_the_logarithm_itself() -> None:
    """3^1000 leaves float range: null with the reason, not a wrong number and not a crash."""
    found = report("SAN", layers=700, tokens=4, width=4, heads=1, seeds=1)
    assert value(found, "log10_residual", "SAN", 600).value is not None
    assert value(found, "log10_residual", "SAN", 700).value is None


def test_progress_counts_every_layer() -> None:
    seen: list[tuple[int, int]] = []
    networks = [GeneratedNetwork(NetworkSpec(layers=3, tokens=4, width=4, heads=1), 0)]
    measure_network_collapse(
        networks,
        parse_ablation_variants(["paper"]),
        [],
        {},
        lambda done, total, what: seen.append((done, total)),
    )
    assert seen == [(done, 12) for done in range(1, 13)]


def test_sweep_rows_carry_the_point_and_the_views_follow_it() -> None:
    points = [4.0, 8.0, 16.0]
    spec = NetworkSpec(layers=1, width=8, heads=2)
    specs = {point: network_spec_at_swept_size(spec, "tokens", int(point)) for point in points}
    variants = parse_ablation_variants(["SAN"])
    found = sweep_network_sizes(specs, "tokens", [0, 1], variants, ["stable_rank"])
    assert {row.keys["tokens"] for row in found.rows} == set(points)
    assert found.views[0].down == "tokens"
    assert found.headline.startswith("Last layer, tokens 4 to 16: SAN: stable_rank")


@pytest.mark.slow
def test_width_collapse_and_its_remedy() -> None:
    """More tokens, deeper collapse in two layers; without the outlier more tokens mean more dimensions instead."""
    spec = NetworkSpec(layers=2, width=256, heads=1)
    specs = {float(n): network_spec_at_swept_size(spec, "tokens", n) for n in (16, 256)}
    variants = add_variants_without_outlier(parse_ablation_variants(["SAN"]))
    found = sweep_network_sizes(
        specs, "tokens", range(3), variants, ["stable_rank", "log10_residual"]
    )

    def last(metric: str, variant: str, tokens: float) -> float:
        (row,) = [
            row
            for row in found.rows
            if (row.metric, row.variant, row.layer) == (metric, variant, 2)
            and row.keys["tokens"] == tokens
        ]
        assert row.value is not None
        return row.value

    assert last("log10_residual", "SAN", 256.0) < last("log10_residual", "SAN", 16.0) - 0.5
    assert last("stable_rank", "SAN", 256.0) < 1.01
    assert last("log10_residual", "SAN-outlier", 256.0) > -0.1
    assert last("stable_rank", "SAN-outlier", 256.0) > 2.0 * last(
        "stable_rank", "SAN-outlier", 16.0
    )


def test_summaries() -> None:
    row = summarize_values("m", "1", [1.0, 3.0], "why")
    assert (row.value, row.n, row.note) == (2.0, 2, None)
    assert row.spread == pytest.approx(math.sqrt(2.0))
    assert summarize_values("m", "1", [5.0], "why").spread is None
    assert summarize_values("m", "1", [1.0, None], "why").note == "why"
    assert summarize_values("m", "1", [1.0, -math.inf], "why").value is None
    assert (summarize_values("m", "1", [1.0, math.nan], "why").note or "").startswith(
        "not resolved"
    )
    assert summarize_values("m", "1", [1e300, -1e300], "why").spread == pytest.approx(
        math.sqrt(2) * 1e300
    )


def test_where_there_is_no_order_it_is_said_why() -> None:
    known = [0.0, -1.0, -3.0, -3.01, math.nan, -9.0, -20.0]
    said = [explain_missing_convergence_order(layer, [known]) for layer in range(len(known))]
    assert said[:2] == ["needs two layers before it"] * 2
    assert said[2:4] == ["the residual does not fall steadily"] * 2
    assert said[4:] == ["needs the residuals of three layers in a row"] * 3
