"""Example inputs of any model: drawn from the names in its forward's signature and the sizes in its config.

One item, no padding, no special ids, so that only the model's own mask hides keys. A model that reads images or sounds
inside a text gets the text alone, unless its forward requires more.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from attncli.capture.reruns.seed_and_precision import preserve_float64_precision
from attncli.errors import InputError
from attncli.forward_argument_types import Inputs
from attncli.models.model_classes import (
    find_forward_signature,
    iter_nested_configs,
    select_named_parameters,
)
from attncli.models.random.random_inputs import InputSampler, find_input_maker

COMPANIONS = (
    "decoder_input_ids",
    "decoder_input_values",
    "bbox",
    "visual_feats",
    "visual_pos",
    "actions",
    "rewards",
    "returns_to_go",
    "timesteps",
    "past_time_features",
    "flattened_patches",
    "past_values_padding",
)
"""Inputs that a signature calls optional, and that are nevertheless made wherever it has them."""


BESIDE = {
    "pixel_values": {"spatial_shapes", "pixel_attention_mask", "target_sizes"},
    "input_features": {"input_features_mask", "feature_lens"},
}
"""Inputs that mark the real part of another: made along with that one."""

BY_TYPE = {
    "blt_global_transformer": {"attention_mask"},
    "blt_local_decoder": {"attention_mask"},
    "blt_local_encoder": {"attention_mask", "num_patches", "patch_ids"},
    "idefics": {"image_attention_mask"},
    "instructblip": {"input_ids"},
    "instructblipvideo": {"input_ids"},
    "kosmos-2": {"image_embeds_position_mask"},
    "muse_glimmer_assistant": {"attention_mask"},
    "moshi_depth": {"attention_mask"},
    "paddleocr_vl_vision": {"grid_thw"},
    "pi0": {"input_ids", "pixel_values", "pixel_attention_mask"},
    "rag": {"context_input_ids", "context_attention_mask", "doc_scores"},
    "vit_mae": {"noise"},
    "voxtral_realtime_text": {"t_cond"},
}
"""Extra inputs of single types; without noise, MAE's forward draws its own."""

EMBEDDED_ELSEWHERE = {"qwen3_omni_moe_talker_text", "qwen3_omni_moe_talker_code_predictor"}
"""Types whose forward takes no ids, although the class has embeddings or requires some."""

OF_OTHER_PARTS = (
    "encoder_hidden_states",
    "last_hidden_state",
    "patch_embeds",
    "context_hidden_states",
)
"""States that another part of the model computes: made where the forward does not run without."""


def make_example_inputs(
    model: PreTrainedModel, tokens: int = 12, seed: int = 0, small: bool = False
) -> dict[str, Tensor]:
    """Make inputs under which the model's forward runs, on its device; `tokens` is the length of texts.

    `small`: images of a few patches, which not every model takes.
    """
    names = list_required_inputs(model)
    inputs = make_named_inputs(model, names, tokens, seed, small)
    more = list_unread_encoder_state_inputs(model, names)
    if not more or does_model_accept_inputs(model, inputs):
        return inputs
    filled = make_named_inputs(model, [*names, *more], tokens, seed, small)
    return filled if does_model_accept_inputs(model, filled) else inputs


def make_named_inputs(
    model: PreTrainedModel, names: Sequence[str], tokens: int, seed: int, small: bool
) -> dict[str, Tensor]:
    """Make one input for each of these names, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    drawn = InputSampler(model, tokens, generator, frozenset(names), small)
    makers = {name: find_input_maker(name) for name in names}
    for name, maker in makers.items():
        if maker is None:
            raise InputError(
                f"{type(model).__name__} asks for the input '{name}', which cannot be made up: "
                "choose a model that reads text, images or sound."
            )
    return {name: maker(drawn).to(model.device) for name, maker in makers.items() if maker}


def list_unread_encoder_state_inputs(model: PreTrainedModel, names: Sequence[str]) -> list[str]:
    """Inputs that are an encoder's states, which a decoder without cross-attention never reads."""
    if getattr(model.config, "add_cross_attention", None) is False:
        return []
    parameters = find_forward_signature(model).parameters
    return [name for name in OF_OTHER_PARTS if name in parameters and name not in names]


def does_model_accept_inputs(model: nn.Module, inputs: Inputs) -> bool:
    """Whether the model's forward runs on these inputs; it may reject them by many kinds of exceptions."""
    try:
        with torch.no_grad(), preserve_float64_precision(model):
            model(**inputs)
    except Exception:
        return False
    return True


def list_required_inputs(model: PreTrainedModel) -> list[str]:
    """Names of the inputs to make, in the order of the signature."""
    parameters = select_named_parameters(find_forward_signature(model))
    names = {name: each.default is each.empty for name, each in parameters.items()}
    main = model.main_input_name
    provided = {name for name, required in names.items() if required} | set(COMPANIONS)
    provided |= {main} if isinstance(main, str) else set(main)
    if has_separate_text_input(model.config):
        provided |= {"input_ids", "pixel_values", "input_features"}
    provided |= {name for main in provided & set(BESIDE) & set(names) for name in BESIDE[main]}
    provided |= BY_TYPE.get(model.config.model_type, set())
    if not provided & set(names):
        provided.add("input_ids")
    if (
        "input_ids" in provided & set(names)
        and "inputs_embeds" in names
        and not has_token_embedding(model)
    ):
        provided = provided - {"input_ids"} | {"inputs_embeds"}
    passed_on = BY_TYPE.get(model.config.model_type, set()) - set(names)
    return [*(name for name in names if name in provided), *sorted(passed_on)]


def has_separate_text_input(config: PreTrainedConfig) -> bool:
    """Whether the text is separate from the image or sound, as in CLIP: image features take no text positions."""
    places = (
        "image_token_id",
        "image_token_index",
        "img_token_id",
        "img_context_token_id",
        "audio_token_id",
        "audio_token_index",
    )
    return not any(
        hasattr(nested, name) for nested in iter_nested_configs(config) for name in places
    )


def has_token_embedding(model: PreTrainedModel) -> bool:
    """Whether it embeds ids itself, instead of another part of the model it belongs to."""
    if model.config.model_type in EMBEDDED_ELSEWHERE:
        return False
    return any(isinstance(module, nn.Embedding) for module in model.modules())
