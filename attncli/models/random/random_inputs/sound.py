"""Inputs of models that read sound."""

import re
from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from attncli.models.random.random_inputs.input_sampler import (
    InputSampler,
    Maker,
    make_features_maker,
    sample_feature_sequence,
)

WITH_CHANNEL_AXIS = re.compile(
    r"dac|encodec|mimi.*|pe_audio.*|pocket_tts.*|xcodec2?|neucodec|vibevoice.*"
)
"""Codecs, whose waveforms have an axis of channels."""
BINS_FIRST = {
    "clvp",
    "glmasr_encoder",
    "qwen3_asr_encoder",
    "voxtral_realtime",
    "voxtral_realtime_encoder",
}
BESIDE_A_WAVEFORM = {"neucodec", "xcodec2"}
"""Types whose spectrogram has as many frames as the accompanying waveform."""
UNBATCHED = {"qwen2_5_omni_audio_encoder", "qwen3_omni_moe_audio_encoder"}
"""Types whose spectrograms are [bin, frame], although no learned positions show it."""


def make_waveform(drawn: InputSampler) -> Tensor:
    """Samples for about `tokens` frames after the strided convolutions."""
    if drawn.model_type == "speecht5":
        return sample_feature_sequence(drawn)
    if drawn.model_type == "audio-spectrogram-transformer":
        return drawn.sample_normal_floats(
            1, drawn.read_config_size("max_length"), drawn.read_config_size("num_mel_bins")
        )
    strides = getattr(drawn.config, "conv_stride", None) or (320,)
    whole = getattr(drawn.config, "samples_per_token", 1)
    channels = (1,) if WITH_CHANNEL_AXIS.fullmatch(drawn.model_type) else ()
    samples = -(-(drawn.tokens + 2) * prod(strides) // whole) * whole
    return drawn.sample_normal_floats(1, *channels, samples)


def count_frequency_bins(drawn: InputSampler) -> int:
    """Features of a frame; some models stack several frames."""
    if drawn.model_type == "musicgen_melody":
        return drawn.read_config_size("num_chroma")
    if drawn.model_type.startswith("granite_speech5"):
        return 4 * drawn.read_config_size("num_mel_bins")
    return drawn.read_config_size(
        "num_mel_bins",
        "feature_size",
        "input_feat_per_channel",
        "input_feat_size",
        "feature_projection_input_dim",
        "input_dim",
        default=128,
    ) * drawn.read_config_size("num_stacked_frames", default=1)


def count_sound_frames(drawn: InputSampler) -> int:
    """The number of frames: as many as there are learned positions, which some models require."""
    positions = drawn.read_config_size("max_source_positions", default=0)
    if drawn.model_type in BESIDE_A_WAVEFORM:
        return drawn.tokens + 2
    if are_frequencies_first(drawn) and positions:
        return 2 * positions
    return 2 * drawn.read_config_size("n_window", default=4 * drawn.tokens)


def are_frequencies_first(drawn: InputSampler) -> bool:
    """Whether bins are channels, as in Whisper's convolutions over time."""
    if drawn.model_type in BESIDE_A_WAVEFORM:
        return False
    fixed = drawn.read_config_size("max_source_positions", default=0) and not hasattr(
        drawn.config, "input_feat_per_channel"
    )
    return bool(fixed) or drawn.model_type in BINS_FIRST


def make_input_features(drawn: InputSampler) -> Tensor:
    """[item, frame, bin], or [item, bin, frame]."""
    if drawn.model_type.startswith("clap"):
        return drawn.sample_normal_floats(1, 1, 1001, count_frequency_bins(drawn))
    shape = (
        (count_frequency_bins(drawn), count_sound_frames(drawn))
        if are_frequencies_first(drawn)
        else (count_sound_frames(drawn), count_frequency_bins(drawn))
    )
    found = drawn.sample_normal_floats(1, *shape)
    return found.squeeze(0) if drawn.model_type in UNBATCHED else found


def make_mask_of_all_frames(drawn: InputSampler) -> Tensor:
    """A mask that hides no frame, for models that require one."""
    return torch.ones(1, count_sound_frames(drawn), dtype=torch.long)


MAKERS: Mapping[str, Maker] = {
    "input_values": make_waveform,
    "decoder_input_values": sample_feature_sequence,
    "input_features": make_input_features,
    "input_features_mask": make_mask_of_all_frames,
    "feature_lens": lambda drawn: torch.tensor([count_sound_frames(drawn)]),
    "spectrogram": make_features_maker("model_in_dim"),
    "mel_spectrogram": lambda drawn: drawn.sample_normal_floats(
        1, drawn.read_config_size("mel_dim"), drawn.tokens
    ),
    "audio_mel": lambda drawn: drawn.sample_normal_floats(
        1, count_sound_frames(drawn), count_frequency_bins(drawn)
    ),
    "audio_mel_mask": lambda drawn: torch.zeros(1, count_sound_frames(drawn), dtype=torch.bool),
    "mask": lambda drawn: torch.ones(1, 4 * drawn.tokens, dtype=torch.bool),
    "latents": lambda drawn: drawn.sample_normal_floats(1, drawn.hidden_size, drawn.tokens),
}
