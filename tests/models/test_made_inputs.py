"""Inputs for models of several parts, and the tiny configs that make them fit together."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, BertConfig, BertModel

from attncli.capture import verify_capture
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.errors import InputError, UsageError
from attncli.model_and_file_sources import parse_source
from attncli.models.inputs.vocabulary_and_positions import find_max_positions
from attncli.models.loading.load_model import load_model
from attncli.models.loading.load_options import LoadOptions
from attncli.models.random.dummy_inputs import (
    does_model_accept_inputs,
    list_required_inputs,
    list_unread_encoder_state_inputs,
    make_example_inputs,
)
from attncli.models.random.random_inputs import find_input_maker
from attncli.models.random.random_models import (
    build_model,
    make_config_with_sizes,
    make_random_model,
)
from attncli.models.random.tiny_configs import shrink_default_config
from attncli.models.random.tiny_sizes import TinySizeUnits

torch.set_num_threads(1)

TINY = {"tiny": ""}
HAS_TIMM = importlib.util.find_spec("timm") is not None


def states(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad(), force_float64():
        output = model(**inputs, output_hidden_states=True)
    inner = getattr(output, "language_model_outputs", output)
    return inner.hidden_states[-1] if inner.get("hidden_states") else inner[0]


# --- backbones of other packages


@pytest.mark.parametrize("kind", ["detr", "deformable_detr", "table-transformer"])
def test_a_tiny_detr_needs_no_timm(kind: str) -> None:
    config = shrink_default_config(kind, TinySizeUnits(), {})
    default = CONFIG_MAPPING[kind]()
    assert default.backbone_config.model_type == "timm_backbone"
    assert config.backbone_config.model_type == "resnet"
    assert list(config.backbone_config.out_indices) == list(default.backbone_config.out_indices)


def test_a_detr_attends_in_encoder_decoder_and_across() -> None:
    model = build_model("detr", TINY, seed=0)
    sites = verify_capture(model, make_example_inputs(model)).sites
    assert {(site.stack.partition(".")[0], site.kind) for site in sites} == {
        ("encoder", "self"),
        ("decoder", "self"),
        ("decoder", "cross"),
    }


@pytest.mark.skipif(HAS_TIMM, reason="timm is installed, so the whole model is built")
def test_without_timm_the_text_model_is_built_and_that_is_said() -> None:
    found = make_random_model("gemma3n", TINY, seed=0)
    assert type(found.model).__name__ == "Gemma3nTextModel"
    assert (
        found.note == "gemma3n needs timm, which is not installed: its text model alone was built."
    )
    default = make_random_model("detr", {}, seed=0)
    assert (
        default.note
        == "detr's own sizes need timm, which is not installed: sizes that you do not set are tiny instead."
    )
    with pytest.raises(InputError, match="'timm_wrapper' needs timm, which is not installed"):
        make_random_model("timm_wrapper", TINY, seed=0)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TIMM, reason="timm is not installed: pip install 'attncli[vision]'")
def test_with_timm_the_whole_model_is_built() -> None:
    model = build_model("gemma3n", TINY, seed=0)
    assert type(model).__name__ == "Gemma3nModel"


def test_of_an_omni_model_its_thinker_is_built_and_that_is_said() -> None:
    found = make_random_model("qwen2_5_omni", TINY, seed=0)
    assert type(found.model).__name__ == "Qwen2_5OmniThinkerModel"
    assert found.note == "Of qwen2_5_omni, qwen2_5_omni_thinker was built."


@pytest.mark.slow
def test_where_the_body_reads_what_its_config_lacks_the_next_class_is_taken() -> None:
    model = build_model("musicgen", TINY, seed=0)
    assert type(model).__name__ == "MusicgenForConditionalGeneration"
    inputs = make_example_inputs(model)
    assert inputs["decoder_input_ids"].shape[0] == model.config.decoder.num_codebooks


# --- images among the tokens of a text


@pytest.mark.parametrize("kind", ["blip-2", "instructblip", "kosmos-2"])
def test_an_image_reaches_the_text_through_its_places(kind: str) -> None:
    model = build_model(kind, TINY, seed=0, dtype=torch.float64)
    inputs = make_example_inputs(model)
    other = {**inputs, "pixel_values": inputs["pixel_values"].flip(-1)}
    plain, changed = states(model, inputs), states(model, other)
    assert plain.shape[1] == inputs["input_ids"].shape[1]
    moved = float((plain[:, -1] - changed[:, -1]).abs().max())
    assert moved > 1e-9  # InstructBLIP draws its vision with a deviation of 1e-10


@pytest.mark.parametrize("kind", ["blip-2", "instructblipvideo"])
def test_a_default_config_has_an_id_for_images_too(kind: str) -> None:
    config, is_tiny, _ = make_config_with_sizes(
        kind, {"layers": 1, "width": 48, "heads": 12, "vocab": 200}
    )
    assert not is_tiny
    token = config.image_token_index if kind == "blip-2" else config.video_token_index
    assert token == config.get_text_config().vocab_size - 1


def test_a_model_of_several_texts_takes_sizes() -> None:
    config, is_tiny, _ = make_config_with_sizes("musicgen", {"layers": 1, "width": 32, "vocab": 64})
    assert config.decoder.num_hidden_layers == 1 or is_tiny


def test_kosmos_has_room_for_all_features_of_an_image() -> None:
    model = build_model("kosmos-2", {"layers": 1, "width": 32}, seed=0)
    inputs = make_example_inputs(model, tokens=5)
    places = inputs["image_embeds_position_mask"]
    assert int(places.sum()) == model.config.latent_query_num == 64
    assert places.shape == inputs["input_ids"].shape == (1, 69)
    assert does_model_accept_inputs(model, inputs)


def test_queries_are_no_positions_of_what_is_read() -> None:
    model = build_model("detr", TINY, seed=0)
    assert model.query_position_embeddings.num_embeddings < 12
    assert find_max_positions(model) is None


def test_there_are_as_many_places_as_queries() -> None:
    model = build_model("blip-2", TINY, seed=0)
    inputs = make_example_inputs(model, tokens=5)
    places = inputs["input_ids"] == model.config.image_token_id
    assert int(places.sum()) == model.config.num_query_tokens == model.query_tokens.shape[1]
    assert inputs["input_ids"].shape[1] == 5 + model.config.num_query_tokens


@pytest.mark.parametrize("kind", ["colpali", "colqwen2"])
def test_a_model_within_a_model_is_asked_for_its_image_token_too(kind: str) -> None:
    assert list_required_inputs(build_model(kind, TINY, seed=0)) == ["input_ids"]


# --- parts of models


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("dia_decoder", "encoder_hidden_states"),
        ("t5gemma2_decoder", "encoder_hidden_states"),
        ("blip_2_qformer", "encoder_hidden_states"),
        ("moshi_depth", "last_hidden_state"),
    ],
)
def test_a_part_is_handed_the_states_it_does_not_run_without(kind: str, more: str) -> None:
    model = build_model(kind, TINY, seed=0)
    assert more in make_example_inputs(model)
    assert more not in list_required_inputs(model)


def test_what_runs_without_is_not_handed_other_states() -> None:
    model = build_model("trocr", TINY, seed=0)
    assert list_unread_encoder_state_inputs(model, list_required_inputs(model)) == [
        "encoder_hidden_states"
    ]
    assert list(make_example_inputs(model)) == ["input_ids"]


def test_names_nobody_thought_of_are_made_by_their_endings() -> None:
    for name in (
        "caption_input_ids",
        "caption_attention_mask",
        "prompt_pixel_values",
        "audio_features",
    ):
        assert find_input_maker(name) is not None
    assert find_input_maker("inference_session") is None
    with pytest.raises(InputError, match="the input 'inference_session', which cannot be made up"):
        make_example_inputs(build_model("sam2_video", TINY, seed=0))


# --- tiny configs whose parts agree


def test_mllama_keeps_a_layer_that_attends_to_its_own_text() -> None:
    for layers in (2, 5):
        config = shrink_default_config("mllama_text_model", TinySizeUnits(layers=layers), {})
        assert config.cross_attention_layers
        assert len(config.cross_attention_layers) < config.num_hidden_layers
    model = build_model("mllama_text_model", TINY, seed=0)
    assert [site.layer for site in verify_capture(model, make_example_inputs(model)).sites] == [0]


def test_maps_of_a_backbone_have_the_size_of_the_tiny_image() -> None:
    config = shrink_default_config("sam2", TinySizeUnits(), {})
    side = config.vision_config.backbone_config.image_size[0]
    assert config.vision_config.backbone_feature_sizes == [[side // by] * 2 for by in (4, 8, 16)]
    assert config.prompt_encoder_config.image_size == side


# --- a mask that is handed on is the whole truth


def test_layers_that_say_causal_and_are_handed_another_mask_are_captured() -> None:
    model = build_model("deepseek_ocr2_encoder", TINY, seed=0)
    proof = verify_capture(model, make_example_inputs(model))
    assert not proof.causal


def test_layers_that_say_causal_and_are_handed_none_are_refused() -> None:
    """Eager attention looks ahead in this model and sdpa does not, so its states are not the same."""
    model = build_model("phi4_multimodal_vision", TINY, seed=0)
    inputs = make_example_inputs(model)
    found = {}
    for name in ("eager", "sdpa"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            found[name] = model(**inputs)[0]
    assert float((found["eager"] - found["sdpa"]).abs().max()) > 0.1
    with pytest.raises(InputError, match="handed no mask, but its eager attention looks ahead"):
        verify_capture(model, inputs)


# --- sizes that a model's code divides by


def test_a_division_by_zero_names_the_line_that_divides(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        build_model("rwkv", {"layers": 1}, seed=0)
    assert str(refused.value) == (
        "random:rwkv cannot have these sizes: modeling_rwkv.py divides by zero at its sizes "
        "(ratio_0_to_1 = layer_id / (num_hidden_layers - 1))."
    )
    small = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)  # fmt: skip
    BertModel(small).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_attention_heads": 0}))
    with pytest.raises(
        InputError, match=r"modeling_bert\.py divides by zero at its sizes \(.*num_attention_heads"
    ):
        load_model(parse_source(str(tmp_path)), LoadOptions())


def test_a_checkpoint_whose_code_needs_a_library_says_how_to_get_it(tmp_path: Path) -> None:
    """As detr's checkpoints on the hub, which name no backbone but timm's."""
    if HAS_TIMM:
        pytest.skip("timm is installed, so the whole model is built")
    config = {"model_type": "detr", "architectures": ["DetrModel"], "use_timm_backbone": True, "backbone": "resnet50"}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(
        InputError, match=r"needs timm, which is not installed: pip install 'attncli\[vision\]'"
    ):
        load_model(parse_source(str(tmp_path)), LoadOptions())
