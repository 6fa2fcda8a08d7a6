"""A model is verified on the caller's own parts: a picture or a sound inside a text is seen whole, and its text is cut short."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PreTrainedModel

import attncli as attn
from attncli.analysis.verification_inputs import (
    PROBE_TOKENS,
    choose_short_input,
    iterate_placeholder_token_ids,
)
from attncli.capture.model_structure.probe_forward import iter_paths_of_unused_blocks
from attncli.errors import InputError
from attncli.models.inputs.model_input import ModelInput
from attncli.models.loading.loaded_model import remove_model_head
from attncli.models.model_classes import find_forward_signature
from attncli.models.random.dummy_inputs import (
    does_model_accept_inputs,
    list_required_inputs,
    make_example_inputs,
    make_named_inputs,
)
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)
Given = dict[str, Tensor]

BESIDE = ("input_features_mask", "feature_attention_mask")
MOST_PLACES = 40
"""Tokens that a picture or a sound of a tiny model takes at most."""
OF_TYPES = {
    "llava": "pixel_values", "paligemma": "pixel_values", "internvl": "pixel_values", "aya_vision": "pixel_values",
    "ovis2": "pixel_values", "qianfan_ocr": "pixel_values", "video_llava": "pixel_values", "colpali": "pixel_values",
    "qwen2_audio": "input_features", "audioflamingo3": "input_features", "musicflamingo": "input_features",
    "moss_transcribe_diarize": "input_features",
}  # fmt: skip
"""Types whose example is a text alone, and which also read pictures or sounds in it."""


def with_media(kind: str) -> tuple[PreTrainedModel, Given]:
    """A tiny model, and a text with a picture or a sound inside: as many places for it as the model accepts."""
    body = remove_model_head(build_model(kind, {"tiny": 1}, 0))
    beside = [name for name in BESIDE if name in find_forward_signature(body).parameters]
    names = [*list_required_inputs(body), OF_TYPES[kind], *beside]
    made = make_named_inputs(body, names, PROBE_TOKENS, 0, False)
    text = make_example_inputs(body, PROBE_TOKENS)["input_ids"]
    for given in fill_places(body, {**made, "input_ids": text}):
        if does_model_accept_inputs(body, given):
            return body, given
    raise AssertionError(f"{kind} takes no {OF_TYPES[kind]}")


def fill_places(body: PreTrainedModel, given: Given) -> Iterator[Given]:
    text = given["input_ids"]
    for token in dict.fromkeys(iterate_placeholder_token_ids(body.config)):
        for count in range(1, MOST_PLACES):
            places = torch.full((1, count), token)
            yield {**given, "input_ids": torch.cat([text[:, :3], places, text[:, 3:]], 1)}


def eager_maps(body: PreTrainedModel, given: Given) -> list[Tensor]:
    """What the model's own eager attention returns, in the order in which it runs."""
    found: list[Tensor] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        is_map = isinstance(weights, Tensor) and weights.dim() == 4
        if is_map and not any(weights is each for each in found):
            found.append(weights)

    before = body.config._attn_implementation
    body.set_attn_implementation("eager")
    hooks = [module.register_forward_hook(keep) for module in body.modules()]
    with torch.no_grad():
        body(**given)
    for hook in hooks:
        hook.remove()
    body.set_attn_implementation(before)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind not in ("llava", "qwen2_audio")))
        for kind in OF_TYPES
    ],
)
def test_a_picture_or_a_sound_in_a_text_is_measured_as_the_model_attends(
    kind: str, tmp_path: Path
) -> None:
    body, given = with_media(kind)
    own = eager_maps(body, given)
    with torch.no_grad():
        before = body(**given)[0]
    file = tmp_path / "maps.safetensors"
    report = attn.inspect_model(body, inputs=given, metric="entropy", save_maps=file)
    maps = [each for name, each in load_file(file).items() if name.endswith(".attention")]
    assert len(maps) == len(own) > 2
    for seen, known in zip(maps, own, strict=True):
        assert torch.allclose(seen, known[0], atol=1e-6)
    stacks = {row.keys.get("stack") for row in report.rows if row.metric == "entropy"}
    assert len(stacks) > 1
    with torch.no_grad():
        assert torch.equal(body(**given)[0], before)


def test_the_text_is_cut_short_and_the_picture_is_whole() -> None:
    body, given = with_media("llava")
    words = torch.randint(1, 40, (1, 60), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(1, 60 + given["input_ids"].shape[1], dtype=torch.long)
    long = {
        **given,
        "input_ids": torch.cat([given["input_ids"], words], 1),
        "attention_mask": mask,
    }
    short = choose_short_input(body, ModelInput("a text", "", long, long["input_ids"].shape[1]))
    last = int((long["input_ids"][0] == body.config.image_token_id).nonzero().max())
    assert short.tokens == short.kwargs["input_ids"].shape[1] == last + 1
    assert short.kwargs["attention_mask"].shape == (1, last + 1)
    assert torch.equal(short.kwargs["pixel_values"], long["pixel_values"])
    report = attn.inspect_model(body, inputs=long, metric="entropy")
    assert report.input["texts"][0]["tokens"] == long["input_ids"].shape[1]


def test_a_text_that_cannot_be_cut_is_verified_whole() -> None:
    body, given = with_media("llava")
    embedded = body.get_input_embeddings()(given["input_ids"]).detach()
    text = ModelInput("a text", "", {"inputs_embeds": embedded}, embedded.shape[1])
    assert choose_short_input(body, text).kwargs["inputs_embeds"].shape == embedded.shape


def test_a_text_alone_is_verified_on_an_example() -> None:
    body, given = with_media("llava")
    ids = {"input_ids": given["input_ids"][:, :3], "attention_mask": torch.ones(1, 3)}
    short = choose_short_input(body, ModelInput("a text", "", ids, 3))
    assert short.tokens == PROBE_TOKENS
    assert set(short.kwargs) == {"input_ids"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llava", "qwen2_audio"])
def test_a_tower_that_did_not_run_is_named_in_the_first_line(kind: str) -> None:
    body, given = with_media(kind)
    tower = {"llava": "vision_tower", "qwen2_audio": "audio_tower"}[kind]
    said = f"{tower} did not run"
    alone = {"input_ids": given["input_ids"][:, :3]}
    assert said in attn.inspect_model(body, inputs=alone, metric="entropy").headline
    assert "did not run" not in attn.inspect_model(body, inputs=given, metric="entropy").headline
    for ask in (attn.rank_collapse, attn.paths):
        assert any(said in each for each in ask(body, inputs=alone).warnings)


def test_blocks_that_a_list_left_out_are_named_and_experts_are_not() -> None:
    """As cross-attention to pictures is left out where there are none, and most experts at any token."""
    blocks = [torch.nn.TransformerEncoderLayer(4, 2) for _ in range(3)]
    experts = [torch.nn.Sequential(torch.nn.Linear(4, 4)) for _ in range(3)]
    model = torch.nn.ModuleDict(
        {
            name: torch.nn.ModuleList(list)
            for name, list in (("layers", blocks), ("experts", experts))
        }
    )
    ran = [*blocks[1].modules(), *experts[0].modules()]
    assert tuple(iter_paths_of_unused_blocks(model, set(ran))) == ("layers 0, 2",)


def test_what_another_part_computes_is_verified_too() -> None:
    """Cross-attention runs where its states are given."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}  # fmt: skip
    torch.manual_seed(0)
    config = BertConfig(vocab_size=40, is_decoder=True, add_cross_attention=True, **sizes)
    body = BertModel(config).eval()
    states = torch.randn(1, 7, 16, generator=torch.Generator().manual_seed(0))
    given = {"input_ids": torch.arange(30)[None] % 40, "encoder_hidden_states": states}
    report = attn.inspect_model(body, inputs=given, metric="entropy")
    assert {row.keys.get("kind") for row in report.rows} >= {"self", "cross"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llava", "qwen2_audio"])
def test_other_questions_take_pictures_and_sounds_too(kind: str) -> None:
    body, given = with_media(kind)
    assert {row.keys["stack"] for row in attn.rank_collapse(body, inputs=given).rows} >= {"language_model"}  # fmt: skip
    attn.paths(body, inputs=given, stack="language_model")
    attn.sensitivity(body, inputs=given, stack="language_model", directions=2)
    monitor = attn.Monitor(body, every=1, probe=given, metrics="sink")
    assert monitor.observe_model_now()


def test_what_the_model_itself_refuses_is_its_own_error() -> None:
    body, given = with_media("llava")
    wrong = {**given, "input_ids": given["input_ids"][:, :5]}
    with pytest.raises(InputError, match="does not run"):
        attn.inspect_model(body, inputs=wrong)
