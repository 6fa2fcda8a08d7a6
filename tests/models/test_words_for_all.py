"""Token ids for models of every kind: read, with what they need beside them, or refused; what fails in a model's code is told."""

from pathlib import Path
from typing import Any

import pytest
import torch
from commands import attn
from small_checkpoints import model_of
from transformers import BertModel, CLIPConfig, CLIPModel

import attncli
from attncli.capture.model_errors import translate_model_errors
from attncli.errors import InputError, UsageError
from attncli.metrics.attention import ATTENTION
from attncli.models.inputs.inputs_besides_token_ids import find_inputs_besides_token_ids
from attncli.models.inputs.synthetic_texts import find_token_argument_names
from attncli.models.inputs.vocabulary_and_positions import find_vocabulary_size
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)

TINY = {"tiny": ""}
IDS = "5,6,7,3,4"

ALONE = ("bert", "canine", "csm", "layoutlm", "moshi_depth", "t5gemma2_decoder")
"""Models of text; without a table of words, with tables of codes, with states of another part."""
BESIDE = {
    "clip": "pixel_values",
    "flava": "pixel_values",
    "vilt": "pixel_values",
    "bros": "bbox",
    "clap": "input_features",
}
NO_WORDS = {
    "musicgen_decoder": "several codes",
    "kyutai_speech_to_text": "several codes",
    "qwen2_vl_vision": "`hidden_states`",
    "mgp-str": "`pixel_values`",
    "blt_local_decoder": "`inputs_embeds`",
    "bark": "nothing that is known",
    "rag": "`doc_scores`",
}


def answer(kind: str, **how: Any) -> attncli.Report:
    return attncli.inspect_model(f"random:{kind}?tiny", metric="entropy", token_ids=IDS, **how)


@pytest.mark.parametrize("kind", ALONE)
def test_ids_are_read(kind: str) -> None:
    report = answer(kind)
    assert any(row.value is not None for row in report.rows)
    assert report.input["texts"][0]["tokens"] == 5


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "beside"), BESIDE.items())
def test_what_is_needed_beside_ids_is_drawn_and_said(kind: str, beside: str) -> None:
    report, again, other = answer(kind), answer(kind), answer(kind, seed=1)
    (text,) = report.input["texts"]
    assert beside in text["drawn_beside"]
    assert any(beside in warning for warning in report.warnings)
    assert text == again.input["texts"][0]
    assert text["sha256"] != other.input["texts"][0]["sha256"]


@pytest.mark.parametrize(("kind", "read"), NO_WORDS.items())
def test_what_reads_no_words_says_what_it_reads(kind: str, read: str) -> None:
    with pytest.raises(UsageError, match="not text: leave the text options out") as refused:
        answer(kind)
    assert read in str(refused.value)


@pytest.mark.slow
def test_paths_and_collapse_say_what_was_drawn_too() -> None:
    for question in (attncli.rank_collapse, attncli.paths):
        report = question("random:clip?tiny", token_ids=IDS)
        assert any("pixel_values" in warning for warning in report.warnings)


@pytest.mark.slow
def test_a_text_is_not_crowded_out_by_what_stands_beside_it() -> None:
    """Given speech too, SeamlessM4T would not read the text, and its text encoder would rest."""
    assert (
        find_inputs_besides_token_ids(
            build_model("seamless_m4t", TINY, seed=0)
        ).names_besides_token_ids
        == ()
    )
    assert find_inputs_besides_token_ids(
        build_model("git", TINY, seed=0)
    ).names_besides_token_ids == ("pixel_values",)
    assert (
        find_inputs_besides_token_ids(build_model("layoutlm", TINY, seed=0)).names_besides_token_ids
        == ()
    )


@pytest.mark.slow
def test_at_a_terminal() -> None:
    done = attn("inspect-model", "random:clip?tiny", "--token-ids", "5,6,7", "--metric", "entropy")
    assert (done.code, "pixel_values" in done.out + done.err) == (0, True)
    assert attn("inspect-model", "random:mgp-str?tiny", "--token-ids", "5,6").code == 2


def test_a_saved_clip_reads_ids(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}  # fmt: skip
    text = {**sizes, "vocab_size": 40, "max_position_embeddings": 12}
    vision = {**sizes, "image_size": 16, "patch_size": 8}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(
        tmp_path
    )
    report = attncli.inspect_model(str(tmp_path), token_ids="5,6,7", metric="entropy")
    assert any(row.value is not None for row in report.rows)
    with pytest.raises(InputError, match="the model knows 0 … 39"):
        attncli.inspect_model(str(tmp_path), token_ids="5,40")


def test_the_vocabulary_of_a_model_without_a_table() -> None:
    assert find_vocabulary_size(build_model("clip", TINY, seed=0)) == 128
    assert (
        find_vocabulary_size(build_model("canine", TINY, seed=0)) is None
    )  # it hashes whatever it is given
    with pytest.raises(InputError, match="ids from 0 on"):
        attncli.inspect_model("random:canine?tiny", token_ids="5,-1")


@pytest.mark.slow
def test_texts_of_our_own_are_read_by_models_of_words_alone() -> None:
    own = {"bert": True, "gpt2": True, "clip": False, "csm": True, "musicgen": False, "dia": False}
    assert {
        kind: find_token_argument_names(build_model(kind, TINY, seed=0)) is not None for kind in own
    } == own
    assert find_token_argument_names(build_model("t5gemma2_decoder", TINY, seed=0)) is None
    assert find_token_argument_names(build_model("csm_depth_decoder_model", TINY, seed=0)) is None
    assert (
        find_inputs_besides_token_ids(build_model("bert", TINY, seed=0)).names_besides_token_ids
        == ()
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["canine", "csm", "csm_depth_decoder_model", "musicgen_decoder"])
def test_everything_is_asked_of_random_tokens(kind: str) -> None:
    attncli.inspect_model(f"random:{kind}?tiny", random_tokens=6, metric="all", pairs=2, with_shuffled_text=True)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["videoprism_text_model", "blt"])
def test_copies_are_told_where_maps_are_of_the_tokens_themselves(kind: str) -> None:
    """More keys than tokens, or patches of them, are no places of the text that was made."""
    report = attncli.inspect_model(f"random:{kind}?tiny", random_tokens=6, metric="copying")
    made = [
        row
        for row in report.rows
        if "made text" in ATTENTION.declaration_of_entry(row.metric).needs
    ]
    notes = {row.note for row in made if row.value is None}
    assert any("not the tokens of the text" in str(note) for note in notes)


class Choosy(BertModel):
    """Of the caller's own: a text of odd length is none for it."""

    def forward(self, input_ids: Any = None, **more: Any) -> Any:
        if input_ids.shape[1] % 2:
            raise KeyError("an even number of tokens")
        return super().forward(input_ids=input_ids, **more)


@pytest.mark.parametrize("question", ["inspect_model", "rank_collapse", "paths"])
def test_what_a_models_own_code_raises_is_one_sentence(question: str) -> None:
    model = Choosy(model_of("BertModel").config)
    asked = getattr(attncli, question)
    asked(model, token_ids="5,6,7,8")
    with pytest.raises(InputError, match=r"Choosy does not run on .*an even number of tokens"):
        asked(model, token_ids="5,6,7")


def test_what_we_raise_stays_a_bug() -> None:
    model = model_of("BertModel")
    with pytest.raises(ZeroDivisionError), translate_model_errors(model, {"a": {"input_ids": torch.ones(1, 3).long()}}):  # fmt: skip
        raise ZeroDivisionError
