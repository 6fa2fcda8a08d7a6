"""Example inputs of any model: drawn from the names in its forward's signature and the sizes in its config.

One item, no padding, no special ids, so that no mask beside the model's own hides anything. Of a model that reads
images or sounds inside a text only the text is given, unless it demands more.
"""

import inspect
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from attncli.errors import InputError
from attncli.models.random.makers import MAKERS, Drawing

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
"""Inputs that a signature calls optional and that are nevertheless wanted wherever it has them."""


BESIDE = {
    "pixel_values": {"spatial_shapes", "pixel_attention_mask", "target_sizes"},
    "input_features": {"input_features_mask", "feature_lens"},
}
"""Inputs that say which part of another is real: wanted with that one."""

BY_TYPE = {
    "idefics": {"image_attention_mask"},
    "paddleocr_vl_vision": {"grid_thw"},
    "vit_mae": {"noise"},
}
"""What single types want besides; without noise, MAE's forward draws its own."""


def example_inputs(
    model: PreTrainedModel, tokens: int = 12, seed: int = 0, small: bool = False
) -> dict[str, Any]:
    """Inputs under which the model's forward runs, on its device; `tokens` is the length of texts.

    `small`: images of a few patches, which not every model takes.
    """
    names = wanted(model)
    generator = torch.Generator().manual_seed(seed)
    drawn = Drawing(model, tokens, generator, frozenset(names), small)
    unknown = [name for name in names if name not in MAKERS]
    if unknown:
        raise InputError(
            f"{type(model).__name__} asks for the input '{unknown[0]}', which cannot be made up: "
            "choose a model that reads text, images or sound."
        )
    return {name: MAKERS[name](drawn).to(model.device) for name in names}


def wanted(model: PreTrainedModel) -> list[str]:
    """Names of the inputs to make, in the order of the signature."""
    parameters = inspect.signature(model.forward).parameters.values()
    named = {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    main = model.main_input_name
    given = {name for name, required in named.items() if required} | set(COMPANIONS)
    given |= {main} if isinstance(main, str) else set(main)
    if stands_beside_text(model.config):
        given |= {"input_ids", "pixel_values", "input_features"}
    given |= {name for main in given & set(BESIDE) & set(named) for name in BESIDE[main]}
    given |= BY_TYPE.get(model.config.model_type, set())
    if not given & set(named):
        given.add("input_ids")
    return [name for name in named if name in given]


def stands_beside_text(config: PreTrainedConfig) -> bool:
    """Text beside an image or sound, as in CLIP: nothing of it stands among the text's tokens."""
    places = (
        "image_token_id",
        "image_token_index",
        "img_token_id",
        "img_context_token_id",
        "audio_token_id",
        "audio_token_index",
    )
    return not any(hasattr(config, name) for name in places)
