"""Reports on models: trained weights, losses, counts, and what is refused."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from commands import attn
from small_checkpoints import saved

from attncli.analysis.paths import decomposed_model
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.commands.paths.trained_models import single_paths
from attncli.errors import InputError
from attncli.models.quiet_libraries import silence_libraries
from attncli.tensor_subclasses.path_streams.path_tensor_forward import run_single_paths
from attncli.tolerances import COMPLETENESS

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = hf.GPT2Config(
        vocab_size=60,
        n_embd=24,
        n_layer=3,
        n_head=4,
        n_positions=20,
        bos_token_id=1,
        eos_token_id=2,
    )
    config.architectures = ["GPT2LMHeadModel"]
    hf.GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def rows(*arguments: str) -> list[dict[str, Any]]:
    outcome = attn("paths", *arguments, "--format", "json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["rows"]  # type: ignore[no-any-return]


def counted(*arguments: str) -> list[dict[str, Any]]:
    outcome = attn("count-paths", *arguments, "--format", "json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["rows"]  # type: ignore[no-any-return]


def values(found: list[dict[str, Any]], metric: str, variant: str) -> list[float]:
    return [row["value"] for row in found if (row["metric"], row["variant"]) == (metric, variant)]


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-12), ("float32", 1e-5)])
def test_a_model_by_attention_and_by_mlp_steps(gpt2: str, dtype: str, error: float) -> None:
    found = rows(gpt2, "--random-tokens", "12", "--steps", "attention,mlp", "--dtype", dtype)
    assert values(found, "path_count", "attention") == [1, 12, 48, 64]
    assert values(found, "path_count", "mlp") == [1, 3, 3, 1]
    for step in ("attention", "mlp"):
        assert values(found, "completeness_error", step)[0] < error
        assert sum(values(found, "path_output_share", step)) == pytest.approx(1.0, abs=1e-5)


def test_the_loss_of_all_paths_is_the_loss_of_the_model(gpt2: str) -> None:
    found = rows(gpt2, "--random-tokens", "12", "--samples", "2", "--loss", "--dtype", "float64")
    losses = values(found, "loss", "attention")
    (full,) = [row for row in found if row["metric"] == "full_loss"]
    assert len(losses) == 4
    assert losses[3] == pytest.approx(full["value"], abs=1e-10)
    assert abs(losses[0] - full["value"]) > 1e-4
    assert full["n"] == 2


@pytest.mark.slow
def test_the_loss_is_that_of_the_next_token(gpt2: str) -> None:
    ids = [5, 9, 11, 3, 40, 22]
    told = ("--token-ids", ",".join(map(str, ids)), "--loss", "--dtype", "float64")
    (full,) = [row["value"] for row in rows(gpt2, *told) if row["metric"] == "full_loss"]
    model = hf.GPT2LMHeadModel.from_pretrained(gpt2, dtype=torch.float64)
    with torch.no_grad():
        chances = model(torch.tensor([ids])).logits[0].log_softmax(dim=-1)
    expected = -sum(chances[place, ids[place + 1]] for place in range(5)) / 5
    assert full == pytest.approx(float(expected), abs=1e-10)


def test_an_encoder_decoder_is_decomposed_in_its_first_stack_and_says_so() -> None:
    outcome = attn("paths", "random:t5?tiny", "--random-tokens", "9", "--format", "json")
    report = json.loads(outcome.out)
    assert report["source"]["stack"] == "encoder"
    assert any("decoder is not decomposed" in warning for warning in report["warnings"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--steps", "atention"), 2, "did you mean 'attention'?"),
        (("--sample", "0"), 2, "from 1 to 100,000"),
        (("--sample", "3", "--loss"), 2, "--loss is about all paths"),
        (("--path", "0,0,5"), 2, "3 numbers from 0 to 4"),
        (("--path", "0,0"), 2, "3 numbers from 0 to 4"),
        (("--by", "layer"), 2, "there are: head, steps"),
        (("--no-skip",), 2, "--no-skip goes with synthetic networks"),
        (("--layers", "3"), 2, "--layers goes with synthetic networks"),
        (("--dtype", "bfloat16"), 2, "would drown the terms"),
        (("--fail-if", "los > 1"), 2, "did you mean 'loss'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_refusals(gpt2: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    outcome = attn("paths", gpt2, "--random-tokens", "12", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err


def test_the_loss_needs_a_next_token_model() -> None:
    outcome = attn("paths", "random:bert?tiny", "--random-tokens", "9", "--loss")
    assert outcome.code == 3
    assert "needs a next-token model" in outcome.err


@pytest.mark.slow
def test_a_stack_is_chosen_by_its_name() -> None:
    told = ("paths", "random:t5?tiny", "--random-tokens", "9")
    report = json.loads(attn(*told, "--stack", "decoder", "--format", "json").out)
    assert report["source"]["stack"] == "decoder"
    assert any("encoder is not decomposed" in warning for warning in report["warnings"])
    for question in (("--by", "head"), ("--sample", "2")):
        assert attn(*told, "--stack", "decoder", *question).code == 0
    assert "did you mean 'decoder'?" in attn(*told, "--stack", "decodr").err
    assert "--stack goes with a model" in attn("paths", "--stack", "decoder").err


def test_where_float32_is_too_coarse_the_text_is_run_again_in_float64(
    gpt2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decomposed_model, "COMPLETENESS", replace(COMPLETENESS, number=1e-9))
    told = ("paths", gpt2, "--random-tokens", "12", "--format", "json")
    report = json.loads(attn(*told).out)
    (error,) = values(report["rows"], "completeness_error", "attention")
    assert error < 1e-12
    assert any("large terms cancel, so this was run again" in one for one in report["warnings"])
    chosen = attn(*told, "--dtype", "float32")
    assert (chosen.code, "use --dtype float64" in chosen.err) == (3, True)


def test_half_precision_files_are_run_in_float32(tmp_path: Path) -> None:
    saved("GPT2LMHeadModel", tmp_path, dtype=torch.bfloat16)
    told = ("paths", str(tmp_path), "--random-tokens", "9", "--format", "json")
    source = json.loads(attn(*told).out)["source"]
    assert (source["dtype"], source["dtype_of_file"]) == ("float32", "bfloat16")


def test_steps_need_a_model() -> None:
    assert attn("paths", "--steps", "mlp").code == 2


def test_single_paths_are_products_of_the_models_maps(gpt2: str) -> None:
    """Against plain products, where those have digits."""
    told = ("--token-ids", "5,9,11,3,40,22", "--path", "2,0,4", "--dtype", "float64")
    (row, _) = rows(gpt2, *told)
    model = hf.GPT2LMHeadModel.from_pretrained(
        gpt2, dtype=torch.float64, attn_implementation="eager"
    )
    ids = torch.tensor([[5, 9, 11, 3, 40, 22]])
    with torch.no_grad():
        maps = model(ids, output_attentions=True).attentions
    product = maps[2][0, 3] @ maps[0][0, 1]
    rest = product - product.mean(dim=0)
    norms = [(m.abs().sum(0).max() * m.abs().sum(1).max()).sqrt() for m in (rest, product)]
    assert (row["length"], row["path"]) == (2, "2,0,4")
    assert row["value"] == pytest.approx(float((norms[0] / norms[1]).log10()), abs=1e-6)


def test_the_norm_of_a_single_path_is_that_of_its_term_beside_the_output(gpt2: str) -> None:
    told = ("--token-ids", "5,9,11,3,40,22", "--path", "0,3,0", "--dtype", "float64")
    (_, row) = rows(gpt2, *told)
    model = hf.GPT2Model.from_pretrained(gpt2, dtype=torch.float64, use_cache=False)
    inputs = {"input_ids": torch.tensor([[5, 9, 11, 3, 40, 22]])}
    found = run_single_paths(model, find_block_stacks(model, inputs)[0], inputs, [(0, 3, 0)])
    expected = float((found.terms[0].norm() / found.output.norm()).log10())
    assert (row["metric"], row["path"]) == ("log10_path_norm", "0,3,0")
    assert row["value"] == pytest.approx(expected, abs=1e-12)


def test_paths_of_what_cannot_be_decomposed_have_residuals_alone() -> None:
    told = ("paths", "random:bloom?tiny", "--random-tokens", "9", "--sample", "2")
    report = json.loads(attn(*told, "--format", "json").out)
    assert {row["metric"] for row in report["rows"]} == {"log10_path_residual"}
    assert any("no norms of paths: there is no rule" in text for text in report["warnings"])


@pytest.mark.slow
def test_sampled_paths_of_bert_fall_as_published_and_go_on_below_the_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Medians .17, 3e-3, 6e-5 and then the floor of subtraction in the published figure.

    Norms, which small models are asked for, would take nine tenths of the time.
    """

    def refuse(*_: object) -> None:
        raise InputError("not here")

    monkeypatch.setattr(single_paths, "log10_relative_norms_of_paths", refuse)
    found = rows(
        "random:bert",
        "--random-tokens",
        "128",
        "--sample",
        "3",
        "--seed",
        "1",
        "--dtype",
        "float32",
    )
    medians = [
        10.0 ** row["value"]
        for row in found
        if (row["metric"], row["quantile"]) == ("log10_path_residual", 0.5)
    ]
    assert medians[:3] == pytest.approx([0.17, 3e-3, 6e-5], rel=0.25)
    assert medians[11] < 1e-19
    assert all(0.01 < after / before < 0.03 for before, after in itertools.pairwise(medians))


@pytest.mark.parametrize("more", [(), ("--steps", "mlp"), ("--by", "steps")])
def test_a_block_that_puts_nothing_out_is_no_other_wiring(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    """As zero-initialised ones do: the longest paths carry nothing, and all others what they did."""
    model = saved("GPT2LMHeadModel", tmp_path)
    with torch.no_grad():
        for part in (model.transformer.h[1].attn.c_proj, model.transformer.h[1].mlp.c_proj):
            part.weight.zero_()
            part.bias.zero_()
    with silence_libraries():
        model.save_pretrained(tmp_path)
    found = rows(str(tmp_path), "--random-tokens", "6", *more)
    errors = [row["value"] for row in found if row["metric"] == "completeness_error"]
    assert errors
    assert max(errors) < 1e-5
    shares = [row for row in found if row["metric"] == "path_norm_share"]
    assert 0.0 in [row["value"] for row in shares]


def test_counts_come_from_the_config_alone(gpt2: str) -> None:
    shares = values(counted(gpt2), "path_count_share", "SAN+skip")
    assert shares == pytest.approx([(1, 12, 48, 64)[k] / 125 for k in range(4)])
    bert = values(counted("random:bert"), "path_count_share", "SAN+skip")
    assert bert[11:] == pytest.approx([0.383, 0.383], abs=5e-4)
    t5 = values(counted("random:t5?layers=24&heads=128"), "path_count_share", "SAN+skip")
    assert t5[24] == pytest.approx(0.830, abs=5e-4)
    assert attn("count-paths", gpt2, "--layers", "3").code == 2


@pytest.mark.parametrize(
    ("kind", "said"), [("dots3_note_text", "its layers have 64, 128"), ("funnel", "it names none")]
)
def test_layers_that_differ_in_heads_are_counted_by_a_number_that_is_given(
    kind: str, said: str
) -> None:
    refused = attn("count-paths", f"random:{kind}")
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert attn("count-paths", f"random:{kind}?heads=4&layers=2").out.startswith("25 paths")


def test_only_layers_with_attention_are_counted() -> None:
    """Expected numbers: (heads + 1) to the power of the layers with attention, by transformers' own default configs."""
    for kind, layers, heads in (("jamba", 4, 32), ("zamba2", 9, 32), ("gemma3", 26, 8)):
        total = sum(
            row["value"] for row in counted(f"random:{kind}") if row["metric"] == "path_count"
        )
        assert total == pytest.approx((heads + 1) ** layers, rel=1e-12), kind
    assert "of the 32 layers of jamba, 4 have" in attn("count-paths", "random:jamba").err
    assert "the encoder's paths" in attn("count-paths", "random:t5").err
    assert attn("count-paths", "random:jamba?layers=4").code == 2
    for kind in ("bamba", "mamba", "rwkv", "fnet"):
        refused = attn("count-paths", f"random:{kind}")
        assert (refused.code, "no layer" in refused.err) == (3, True), refused


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("--layers 1 --heads 1 --no-skip", "1 path of length 1."),
        ("--layers 1 --heads 1", "2 paths; lengths 0 and 1 are the most common: a share of 0.500 each."),
        ("--layers 2 --heads 3 --no-skip", "9 paths, all of length 2."),
        ("--layers 2 --heads 3", "16 paths; length 2 is the most common: a share of 0.562."),
    ],
)  # fmt: skip
def test_the_most_common_lengths_are_all_named(sizes: str, said: str) -> None:
    assert attn("count-paths", *sizes.split()).out.partition("\n")[0] == said


def test_types_whose_config_cannot_be_made_or_says_more_than_is_asked_are_told_by_name() -> None:
    """Nougat's own default names a type that there is not; LXMERT has layers of three kinds."""
    for kind, code, said in (("nougat", 3, "no config of its own"), ("lxmert", 2, "?layers=N")):
        outcome = attn("count-paths", f"random:{kind}")
        assert (outcome.code, said in outcome.err, outcome.err.count("\n")) == (code, True, 1)


def test_attentions_and_mlps_together_add_up_to_each_kind_apart(gpt2: str) -> None:
    told = (gpt2, "--random-tokens", "12", "--dtype", "float64")
    found, apart = rows(*told, "--by", "steps"), rows(*told, "--steps", "attention,mlp")
    shares = [row for row in found if row["metric"] == "path_output_share"]
    assert len(shares) == 16
    for kind, key in (("attention", "attentions"), ("mlp", "mlps")):
        expected = values(apart, "path_output_share", kind)
        for length in range(4):
            own = sum(row["value"] for row in shares if row[key] == length)
            assert own == pytest.approx(expected[length], abs=1e-12)
    assert values(found, "completeness_error", "attention and MLP")[0] < 1e-12
    norms = values(found, "path_norm_share", "attention and MLP")
    assert sum(norms) == pytest.approx(1.0)


def test_heads_of_a_model_and_what_passes_them_add_up(gpt2: str) -> None:
    found = rows(gpt2, "--by", "head", "--random-tokens", "12", "--samples", "2")
    for layer in range(3):
        shares = [row["value"] for row in found if row["layer"] == layer]
        assert len(shares) == 5
        assert sum(shares) == pytest.approx(1.0, abs=1e-12)
    (error,) = [row["value"] for row in found if row["metric"] == "completeness_error"]
    assert error < 1e-5
