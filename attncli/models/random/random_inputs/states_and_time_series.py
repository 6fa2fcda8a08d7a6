"""Inputs that are neither text, images nor sound: states of other modules, time series, decisions."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attncli.models.random.random_inputs.images import make_flat_patches, make_image
from attncli.models.random.random_inputs.input_sampler import (
    InputSampler,
    Maker,
    make_features_maker,
    sample_feature_sequence,
)
from attncli.models.random.random_inputs.sound import make_waveform


def make_hidden_states(drawn: InputSampler) -> Tensor:
    """Patches for image encoders, otherwise a sequence."""
    if "grid_thw" in drawn.names:
        return make_flat_patches(drawn)
    if "mask" in drawn.names:
        return drawn.sample_normal_floats(1, 4 * drawn.tokens, drawn.read_config_size("input_size"))
    if drawn.model_type == "lw_detr_vit":
        return drawn.sample_normal_floats(
            drawn.read_config_size("num_windows"), drawn.tokens, drawn.hidden_size
        )
    if drawn.model_type == "florence_vision":
        return make_image(drawn)
    if drawn.model_type.startswith("granite_speech"):
        return drawn.sample_normal_floats(1, drawn.tokens, drawn.read_config_size("input_dim"))
    return sample_feature_sequence(drawn)


def make_encoder_states(drawn: InputSampler) -> Tensor:
    """An encoder's output, of the encoder's width, for the model's cross-attention."""
    widths = ("cross_attention_hidden_size", "cross_hidden_size", "encoder_hidden_size")
    return drawn.sample_normal_floats(
        1, drawn.tokens, drawn.read_config_size(*widths, default=drawn.hidden_size)
    )


def make_past_values(drawn: InputSampler) -> Tensor:
    """The history of a time series; lagged values reach back behind the context."""
    length = drawn.read_config_size("context_length", default=32)
    if drawn.model_type.startswith("patchts"):
        return drawn.sample_normal_floats(1, length, drawn.read_config_size("num_input_channels"))
    lags = getattr(drawn.config, "lags_sequence", None) or [0]
    return drawn.sample_normal_floats(1, length + max(lags))


def make_past_time_features(drawn: InputSampler) -> Tensor:
    return drawn.sample_normal_floats(
        *make_past_values(drawn).shape, drawn.read_config_size("num_time_features")
    )


MAKERS: Mapping[str, Maker] = {
    "hidden_states": make_hidden_states,
    "encoder_hidden_states": make_encoder_states,
    "t_cond": lambda drawn: drawn.sample_normal_floats(1, 1, drawn.hidden_size),
    "context_hidden_states": lambda drawn: drawn.sample_normal_floats(
        1,
        drawn.tokens,
        drawn.hidden_size * len(getattr(drawn.config, "target_layer_ids", None) or [0]),
    ),
    "last_hidden_state": lambda drawn: drawn.sample_normal_floats(
        1,
        min(drawn.read_config_size("num_codebooks", default=drawn.tokens), drawn.tokens),
        drawn.read_config_size("input_size", default=drawn.hidden_size),
    ),
    "inputs_embeds": sample_feature_sequence,
    "query_embeds": sample_feature_sequence,
    "context": sample_feature_sequence,
    "inputs": lambda drawn: (
        make_waveform(drawn) if "speech" in drawn.model_type else sample_feature_sequence(drawn)
    ),
    # time series and decisions
    "past_values": make_past_values,
    "past_time_features": make_past_time_features,
    "past_observed_mask": lambda drawn: torch.ones_like(make_past_values(drawn)),
    "past_values_padding": lambda drawn: torch.zeros_like(make_past_values(drawn)),
    "freq": lambda drawn: torch.zeros(1, 1, dtype=torch.long),
    "states": make_features_maker("state_dim"),
    "actions": make_features_maker("act_dim"),
    "rewards": make_features_maker("reward_dim"),
    "returns_to_go": make_features_maker("return_dim"),
    "timesteps": lambda drawn: torch.arange(drawn.tokens).unsqueeze(0),
}
