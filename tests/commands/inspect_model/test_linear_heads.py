"""Numbers of linear layers in a report, held against loops over their maps; those of softmax heads stay what they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attncli as attn
from attncli import gates
from attncli.analysis import load_and_verify_model
from attncli.analysis.verification_inputs import ShortInput
from attncli.capture.linear_attention import linear_attention_capture
from attncli.capture.linear_attention.linear_attention_heads import LinearAttentionLayers
from attncli.capture.model_structure.probe_forward import probe_forward
from attncli.commands.inspect_model.command import validate_metrics_heads_and_gates
from attncli.errors import InputError, NoAttention, UsageError
from attncli.options.head_selection import HeadOptions
from attncli.records import Report, Row

torch.set_num_threads(1)

TOKENS = 30
HYBRID = "random:qwen3_next?layers=4&tiny"
METRICS = [
    "entropy", "entropy_normalised", "effective_support", "distance", "sink", "previous_token", "self_attention",
    "offset_profile", "s1", "attention_stable_rank", "logit_spread", "virtual_sink", "head_contribution",
    "attention_stable_rank_centred", "negative_share", "off_diagonal_rank",
]  # fmt: skip

Maps = dict[int, np.ndarray[Any, Any]]
Draws = dict[int, list[np.ndarray[Any, Any]]]


@pytest.fixture(scope="module")
def both() -> tuple[Report, Maps, Draws]:
    """A report of a hybrid, and the maps that its linear layers had on the text and on draws of random tokens that repeat."""
    maps: Draws = {}
    on_repeats: Draws = {}
    own = linear_attention_capture.build_linear_map_rows

    def kept(layer: Any, strip: Any, tokens: int) -> Any:
        found = own(layer, strip, tokens)
        kept = maps if tokens == TOKENS else on_repeats
        first, size = strip.first, strip.weights.shape[1]
        if not first:
            kept.setdefault(layer.site.layer, []).append(np.zeros((layer.heads, tokens, tokens)))
        rows = kept[layer.site.layer][-1]
        rows[:, first : first + size, : found.signed_map.shape[3]] = found.signed_map[0]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_attention_capture, "build_linear_map_rows", kept)
        report = reported()
    return report, {layer: found[-1] for layer, found in maps.items()}, on_repeats


@pytest.fixture(scope="module")
def run(both: tuple[Report, Maps, Draws]) -> tuple[Report, Maps]:
    return both[:2]


def reported(**more: Any) -> Report:
    asked: dict[str, Any] = {"metric": METRICS, "random_tokens": TOKENS, "dtype": "float64", **more}
    return attn.inspect_model(HYBRID, **asked)


def rows_of(report: Report, metric: str, span: str = "linear") -> list[Row]:
    return [r for r in report.rows if r.metric == metric and r.keys.get("span", "full") == span]


def shares(weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    sizes = np.abs(weights)
    return sizes / sizes.sum(axis=-1, keepdims=True)


def entropy(row: np.ndarray[Any, Any]) -> float:
    return float(-sum(p * np.log(p) for p in row if p > 0))


def test_every_linear_head_is_there(run: tuple[Report, Maps]) -> None:
    report, _ = run
    there = [(row.layer, row.head) for row in rows_of(report, "entropy")]
    assert there == [(layer, head) for layer in (0, 1, 2) for head in range(4)]
    assert {row.keys["kind"] for row in rows_of(report, "entropy")} == {"gated delta net"}
    (said,) = report.source["linear"]
    assert (said["function"], said["argument"]) == ("torch_chunk_gated_delta_rule", 2)
    assert said["layers"] == [0, 1, 2]


def test_shares_of_the_sizes_by_a_loop(run: tuple[Report, Maps]) -> None:
    report, maps = run
    for metric, slow in {
        "entropy": lambda p: np.mean([entropy(row) for row in p]),
        "entropy_normalised": lambda p: np.mean(
            [entropy(row[: i + 1]) / np.log(i + 1) for i, row in enumerate(p) if i]
        ),
        "effective_support": lambda p: np.mean([np.exp(entropy(row)) for row in p]),
        "distance": lambda p: np.mean(
            [sum(row[j] * (i - j) for j in range(i + 1)) for i, row in enumerate(p)]
        ),
        "sink": lambda p: p[:, 0].mean(),
        "self_attention": lambda p: np.diagonal(p).mean(),
    }.items():
        for row in rows_of(report, metric):
            assert row.layer is not None
            assert row.value == pytest.approx(slow(shares(maps[row.layer][row.head])), rel=1e-9), (
                metric
            )


def test_profiles_by_a_loop(both: tuple[Report, Maps, Draws]) -> None:
    """Over all draws: the mean, and their standard deviation."""
    report, _, maps = both
    for row in [*rows_of(report, "offset_profile"), *rows_of(report, "previous_token")]:
        assert row.layer is not None
        back = row.keys.get("offset", 1)
        draws = [np.diagonal(shares(draw[row.head]), -back).mean() for draw in maps[row.layer]]
        assert row.value == pytest.approx(np.mean(draws), rel=1e-9)
        assert (row.n, row.spread) == (8, pytest.approx(np.std(draws, ddof=1), rel=1e-6))


def test_spectra_are_those_of_the_signed_map(run: tuple[Report, Maps]) -> None:
    report, maps = run
    for row in rows_of(report, "s1"):
        assert row.layer is not None
        values = np.linalg.svd(maps[row.layer][row.head], compute_uv=False)
        assert row.value == pytest.approx(values[0], rel=1e-6)
    for row in rows_of(report, "attention_stable_rank"):
        assert row.layer is not None
        values = np.linalg.svd(maps[row.layer][row.head], compute_uv=False)
        assert row.value == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-6)


def test_ranks_and_signs_are_those_of_the_map(run: tuple[Report, Maps]) -> None:
    report, maps = run
    for row in rows_of(report, "negative_share"):
        weights = maps[row.layer][row.head]  # type: ignore[index]
        wanted = np.mean([-r[r < 0].sum() / abs(r).sum() for r in weights])
        assert row.value == pytest.approx(wanted, abs=1e-12)
        assert row.keys["uniform"] == 0.0
    for row in rows_of(report, "off_diagonal_rank"):
        block = maps[row.layer][row.head][TOKENS // 2 :, : TOKENS // 2]  # type: ignore[index]
        assert row.value == np.linalg.matrix_rank(block, rtol=1e-4)


def test_nulls_are_those_of_even_attention(run: tuple[Report, Maps]) -> None:
    report, _ = run
    for row in rows_of(report, "distance"):
        assert row.keys["uniform"] == pytest.approx((TOKENS - 1) / 4, rel=1e-6)
    for row in rows_of(report, "entropy_normalised"):
        assert row.keys["uniform"] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("logit_spread", "no softmax, so no logits"),
        ("virtual_sink", "no learned sink"),
        ("head_contribution", "gates and norms"),
        ("attention_stable_rank_centred", "do not sum to 1"),
    ],
)
def test_what_does_not_apply_says_why(run: tuple[Report, Maps], metric: str, why: str) -> None:
    for row in rows_of(run[0], metric):
        assert row.value is None
        assert row.note is not None
        assert why in row.note


def test_maps_are_complete(run: tuple[Report, Maps]) -> None:
    rows = rows_of(run[0], "completeness_error")
    assert [row.layer for row in rows] == [0, 1, 2]
    assert all(row.value is not None and row.value <= 1e-12 for row in rows)
    assert "completeness_error" in run[0].metrics


def test_softmax_heads_are_what_they_were(
    run: tuple[Report, Maps], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        linear_attention_capture, "find_linear_attention_layers", lambda *_: LinearAttentionLayers()
    )
    alone = [row for row in reported().rows if row.head is not None]
    beside = [row for row in run[0].rows if row.head is not None and "span" not in row.keys]
    assert [(r.metric, r.layer, r.head, r.value, r.note) for r in alone] == [
        (r.metric, r.layer, r.head, r.value, r.note) for r in beside
    ]
    assert alone


@pytest.mark.slow
def test_layers_and_heads_choose_linear_ones() -> None:
    report = reported(layers=[1], heads=[2], metric=["sink"])
    assert [(row.layer, row.head) for row in rows_of(report, "sink")] == [(1, 2)]
    assert not rows_of(report, "sink", "full")
    with pytest.raises(UsageError, match="layer 9 has no attention"):
        reported(layers=[9])


@pytest.mark.slow
def test_roles_of_both_kinds() -> None:
    report = attn.inspect_model(HYBRID, random_tokens=TOKENS)
    assert "3 are gated delta nets" in report.headline
    assert "; 12 linear heads: " in report.headline
    about = {finding.about: finding.text for finding in report.findings}
    assert "12 heads in layers " in about["gated delta nets"]
    assert "median memory length" in about["gated delta nets"]
    assert "4 heads: " in about["softmax heads"]
    roles = [row for row in report.rows if row.metric == "role"]
    assert len(roles) == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said"), [("mamba2", "2 are mamba2 mixers"), ("rwkv", "2 are rwkv blocks")]
)
def test_models_without_any_softmax(kind: str, said: str) -> None:
    report = attn.inspect_model(f"random:{kind}?layers=2&tiny", random_tokens=12, seed=1)
    assert f"0 of 2 layers attend; {said}" in report.headline
    assert {row.layer for row in rows_of(report, "memory_length")} == {0, 1}
    assert not rows_of(report, "memory_length", "full")
    assert not any("no sinks" in finding.text for finding in report.findings)
    assert max(row.value or 1.0 for row in rows_of(report, "completeness_error")) <= 1e-5


def test_maps_that_are_not_kept_are_not_promised(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="maps of linear layers are not kept"):
        attn.inspect_model(
            "random:mamba2?layers=1&tiny", random_tokens=12, save_maps=tmp_path / "m.safetensors"
        )


def test_a_model_that_mixes_nothing_is_refused() -> None:
    class Alone(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                states = layer(states)
            return states

    model, short = Alone(), {"states": torch.randn(1, 12, 8)}
    seen = probe_forward(model, short)
    reason = NoAttention("no attention was seen here.")
    with pytest.raises(NoAttention, match="and no linear layer"):
        load_and_verify_model.prepare_linear_layers(model, ShortInput(short, 12), seen, reason)  # type: ignore[arg-type]


def test_channels_are_sampled_unless_heads_are_named() -> None:
    few = attn.inspect_model("random:lfm2?layers=2&tiny", metric=["sink"], random_tokens=12)
    assert [row.head for row in rows_of(few, "sink")] == list(range(0, 64, 4))
    assert any("16 of 64" in warning for warning in few.warnings)
    named = attn.inspect_model(
        "random:lfm2?layers=2&tiny", metric=["sink"], random_tokens=12, heads=["0-63"]
    )
    assert [row.head for row in rows_of(named, "sink")] == list(range(64))
    assert not any("of 64" in warning for warning in named.warnings)


def test_gates_may_hold_what_only_linear_layers_have() -> None:
    wanted = [
        gates.parse_condition("max(completeness_error) > 1e-5"),
        gates.parse_condition("memory_length > 9"),
    ]
    validate_metrics_heads_and_gates(wanted, [], 0, HeadOptions())
    validate_metrics_heads_and_gates(wanted[:1], ["sink"], 0, HeadOptions())
    with pytest.raises(UsageError, match="add `metric='memory_length'`"):
        validate_metrics_heads_and_gates(wanted, ["sink"], 0, HeadOptions())


def test_what_has_no_map_is_named() -> None:
    """A convolution of an image's patches in an order of their own: no step has the axis of tokens."""
    report = attn.inspect_model("random:lfm3_vl_vision?tiny", random_tokens=12)
    assert "no step of its forward" in report.source["not_linear"]["short conv"]
    assert any("short conv" in finding.text for finding in report.findings)


@pytest.mark.slow
def test_in_half_precision_a_scan_inside_a_forward_is_not_vouched_for() -> None:
    report = attn.inspect_model("random:minimax?layers=2&tiny", random_tokens=12, dtype="bfloat16")
    assert "choose `dtype` float32" in report.source["not_linear"]["lightning attention"]
    assert not [row for row in report.rows if row.keys.get("span") == "linear"]


def test_maps_of_another_order_on_a_longer_text_are_refused() -> None:
    """Reformer attends to all of a short text, and to chunks of a sorted longer one."""
    short = attn.inspect_model("random:reformer?tiny", random_tokens=12, metric="row_size")
    assert all(abs(row.value - 1.0) < 1e-5 for row in short.rows if row.head is not None and row.metric == "row_size")  # fmt: skip
    with pytest.raises(InputError, match="in another order here than on the short input"):
        attn.inspect_model("random:reformer?tiny", random_tokens=256, metric="row_size")


def test_a_scan_inside_a_forward_is_reported_by_the_names_of_its_code() -> None:
    report = attn.inspect_model("random:minimax?layers=2&tiny", random_tokens=12, metric="memory")
    assert "not_linear" not in report.source
    (linear,) = report.source["linear"]
    assert (linear["function"], linear["argument"]) == ("forward: attn_output", "value_states")


def test_questions_about_softmax_heads_leave_linear_ones_out() -> None:
    report = attn.dispersion(HYBRID, lengths="16:32")
    assert {row.layer for row in report.rows if row.head is not None} == {3}
    with pytest.raises(NoAttention, match="has no softmax head"):
        attn.dispersion("random:mamba2?layers=1&tiny", lengths="16:32")
