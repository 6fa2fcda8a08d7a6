"""One maker per name that a forward may ask for."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from attncli.checkpoints.random.model_classes import configs_of
from attncli.errors import InputError

SPECIAL_IDS = re.compile(r".*(_token_id|_token_index)s?|(pad|bos|eos|unk|mask|sep|cls)_index")
FRAMES_FIRST_IMAGES = {"timesformer", "videomae", "vivit", "xclip"}
"""`pixel_values` of these types are videos."""
IMAGE_PAIRS = {"superglue", "lightglue", "efficientloftr"}
IMAGE_LISTS = {"idefics", "colmodernvbert"}
"""`pixel_values` of these types have an axis of images."""
PATCH_IMAGES = {"kimi_k25_vision", "paddleocr_vl_vision"}
WITH_CHANNEL_AXIS = re.compile(
    r"dac|encodec|mimi.*|pe_audio.*|pocket_tts.*|xcodec2?|neucodec|vibevoice.*"
)
"""Codecs, whose waveforms have an axis of channels."""
BINS_FIRST = {"clvp", "glmasr_encoder", "voxtral_realtime", "voxtral_realtime_encoder"}
UNBATCHED = {"qwen2_5_omni_audio_encoder", "qwen3_omni_moe_audio_encoder"}
"""Spectrograms of these types are [bin, frame] although no learned positions say so."""
GRID_SIDE = 4
"""Patches along each side of an example image that is given as patches."""


@dataclass(frozen=True)
class Drawing:
    """What the makers draw from."""

    model: PreTrainedModel
    tokens: int
    generator: torch.Generator
    names: frozenset[str]
    """All inputs that are going to be made: one may depend on another."""

    @property
    def config(self) -> PreTrainedConfig:
        return self.model.config

    @property
    def kind(self) -> str:
        return str(self.config.model_type)

    def size(self, *names: str, default: int | None = None) -> int:
        """The first whole number that the config, or one nested in it, has under one of the names."""
        for config in configs_of(self.config):
            for name in names:
                value = vars(config).get(config.attribute_map.get(name, name))
                value = value[0] if isinstance(value, (list, tuple)) and value else value
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        if default is None:
            raise InputError(
                f"{type(self.config).__name__} says nothing of {names[0]}: inputs cannot be made up."
            )
        return default

    @property
    def width(self) -> int:
        return self.size("hidden_size", "d_model", "embed_dim", "hidden_dim", "dim")

    def floats(self, *shape: int) -> Tensor:
        """Standard normal numbers in the model's dtype."""
        return torch.randn(shape, generator=self.generator).to(self.model.dtype)

    def ids(self, vocabulary: int, *shape: int) -> Tensor:
        """Random ids, none of them special."""
        special = set(special_ids(self.config))
        usual = torch.tensor([i for i in range(vocabulary) if i not in special] or [0])
        return usual[torch.randint(len(usual), shape, generator=self.generator)]


def special_ids(config: PreTrainedConfig) -> Iterator[int]:
    """Ids with a meaning of their own: padding, ends, places of images."""
    for nested in configs_of(config):
        for name, value in vars(nested).items():
            if SPECIAL_IDS.fullmatch(name):
                values = value if isinstance(value, (list, tuple)) else [value]
                yield from (each for each in values if isinstance(each, int))


def input_ids(drawn: Drawing) -> Tensor:
    codebooks = drawn.size("num_codebooks", default=1)
    if drawn.kind in ("moshi_depth", "csm_depth_decoder_model"):
        return drawn.ids(vocabulary(drawn), 1, min(codebooks, drawn.tokens))
    if drawn.kind == "kyutai_speech_to_text":
        return drawn.ids(vocabulary(drawn), 1, drawn.tokens, codebooks + 1)
    if drawn.kind.startswith("musicgen"):
        return drawn.ids(vocabulary(drawn), codebooks, drawn.tokens)
    if drawn.kind == "dia_decoder":
        return drawn.ids(vocabulary(drawn), 1, drawn.tokens, drawn.size("num_channels"))
    return drawn.ids(vocabulary(drawn), 1, drawn.tokens)


def vocabulary(drawn: Drawing) -> int:
    """Rows of the embedding, which some configs do not name."""
    try:
        rows = getattr(drawn.model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # a model of several texts, or of none
        rows = None
    if not isinstance(rows, int):
        return drawn.size("vocab_size", default=256)
    return min(rows, drawn.size("vocab_size", default=rows))  # one table may hold several codebooks


def decoder_input_ids(drawn: Drawing) -> Tensor:
    for name in ("decoder", "decoder_config", "text_config"):
        nested = getattr(drawn.config, name, None)
        if isinstance(nested, PreTrainedConfig) and hasattr(nested, "vocab_size"):
            channels = getattr(nested, "num_channels", None)
            shape = (1, drawn.tokens, channels) if drawn.kind == "dia" else (1, drawn.tokens)
            return drawn.ids(nested.vocab_size, *shape)
    return drawn.ids(drawn.size("vocab_size"), 1, drawn.tokens)


def pixel_values(drawn: Drawing) -> Tensor:
    """[image, channel, row, column], or the patches of one image for models that take those."""
    if drawn.kind in PATCH_IMAGES:
        return patch_images(drawn)
    if drawn.kind == "mllama_vision_model":
        return image(drawn)[:, None, None].repeat(1, 1, drawn.size("max_num_tiles"), 1, 1, 1)
    if "grid_thw" in drawn.names:
        return patches(drawn)
    if "spatial_shapes" in drawn.names or drawn.kind == "siglip2":
        return patches(drawn).unsqueeze(0)
    if drawn.kind in FRAMES_FIRST_IMAGES:
        return video(drawn)
    if drawn.kind == "xclip_vision_model":
        return video(drawn).squeeze(0)
    if drawn.kind in IMAGE_PAIRS:
        return torch.stack([image(drawn), image(drawn)], dim=1)
    if drawn.kind in IMAGE_LISTS:
        return image(drawn).unsqueeze(1)
    return image(drawn)


def image(drawn: Drawing) -> Tensor:
    channels = drawn.size("num_channels", "in_channels", "in_chans", default=3)
    rows, columns = image_sides(drawn)
    return drawn.floats(1, channels, rows, columns)


def image_sides(drawn: Drawing) -> tuple[int, int]:
    names = ("image_size", "img_size", "input_size", "pretrain_image_size", "max_img_size")
    for config in configs_of(drawn.config):
        for name in names:
            side = vars(config).get(name)
            if isinstance(side, int):
                return side, side
            if isinstance(side, (list, tuple)) and len(side) == 2:
                return side[0], side[1]
    return 64, 64


def video(drawn: Drawing) -> Tensor:
    frames = drawn.size("num_frames", "frames_per_clip", default=4)
    return torch.stack([image(drawn) for _ in range(frames)], dim=1)


def noise(drawn: Drawing) -> Tensor:
    """One number per patch, by which MAE chooses those it hides."""
    rows, columns = (side // drawn.size("patch_size") for side in image_sides(drawn))
    return drawn.floats(1, rows * columns)


def patches(drawn: Drawing) -> Tensor:
    """[patch, channel · frame · row · column] of one image."""
    patch = drawn.size("patch_size")
    channels = drawn.size("in_channels", "in_chans", "num_channels", default=3)
    depth = drawn.size("temporal_patch_size", "patch_temporal", default=1)
    return drawn.floats(GRID_SIDE**2, channels * depth * patch**2)


def patch_images(drawn: Drawing) -> Tensor:
    """[patch, channel, row, column], behind an axis of items for PaddleOCR."""
    patch = drawn.size("patch_size")
    found = patches(drawn).reshape(GRID_SIDE**2, -1, patch, patch)
    return found if drawn.kind == "kimi_k25_vision" else found.unsqueeze(0)


def grid(drawn: Drawing) -> Tensor:
    """[image, (frames, rows, columns)] of `patches`."""
    return torch.tensor([[1, GRID_SIDE, GRID_SIDE]])


def placed_patches(drawn: Drawing) -> Tensor:
    """[image, patch, (row, column, pixels …)], rows and columns counted from 1."""
    features = drawn.size("patch_embed_hidden_size", default=0)
    features = features or drawn.size("num_channels", default=3) * drawn.size("patch_size") ** 2
    places = torch.cartesian_prod(*[torch.arange(1, GRID_SIDE + 1)] * 2).to(drawn.model.dtype)
    pixels = drawn.floats(GRID_SIDE**2, features)
    return torch.cat([places, pixels], dim=1).unsqueeze(0)


def sequence(drawn: Drawing) -> Tensor:
    """[item, token, feature]"""
    return drawn.floats(1, drawn.tokens, drawn.width)


def hidden_states(drawn: Drawing) -> Tensor:
    """Patches for encoders of images, else a sequence."""
    if "grid_thw" in drawn.names:
        return patches(drawn)
    if drawn.kind.startswith("granite_speech"):
        return drawn.floats(1, drawn.tokens, drawn.size("input_dim"))
    return sequence(drawn)


def waveform(drawn: Drawing) -> Tensor:
    """Samples for about `tokens` frames after the strided convolutions."""
    if drawn.kind == "speecht5":
        return sequence(drawn)
    if drawn.kind == "audio-spectrogram-transformer":
        return drawn.floats(1, drawn.size("max_length"), drawn.size("num_mel_bins"))
    strides = getattr(drawn.config, "conv_stride", None) or (320,)
    channels = (1,) if WITH_CHANNEL_AXIS.fullmatch(drawn.kind) else ()
    return drawn.floats(1, *channels, (drawn.tokens + 2) * prod(strides))


def bins(drawn: Drawing) -> int:
    """Features of a frame, into which some models stack several frames."""
    if drawn.kind.startswith("granite_speech5"):
        return 4 * drawn.size("num_mel_bins")
    return drawn.size(
        "num_mel_bins",
        "feature_size",
        "input_feat_per_channel",
        "input_feat_size",
        "feature_projection_input_dim",
        "input_dim",
        default=128,
    ) * drawn.size("num_stacked_frames", default=1)


def frames(drawn: Drawing) -> int:
    """As many as learned positions have room for, which models insist on."""
    positions = drawn.size("max_source_positions", default=0)
    if bins_first(drawn) and positions:
        return 2 * positions
    return 2 * drawn.size("n_window", default=4 * drawn.tokens)


def bins_first(drawn: Drawing) -> bool:
    """Convolutions over time, as in Whisper, take bins as channels."""
    fixed = drawn.size("max_source_positions", default=0) and not hasattr(
        drawn.config, "input_feat_per_channel"
    )
    return bool(fixed) or drawn.kind in BINS_FIRST


def input_features(drawn: Drawing) -> Tensor:
    """[item, frame, bin], or [item, bin, frame]."""
    if drawn.kind.startswith("clap"):
        return drawn.floats(1, 1, 1001, bins(drawn))
    shape = (bins(drawn), frames(drawn)) if bins_first(drawn) else (frames(drawn), bins(drawn))
    found = drawn.floats(1, *shape)
    return found.squeeze(0) if drawn.kind in UNBATCHED else found


def all_frames(drawn: Drawing) -> Tensor:
    """The mask that hides none, for models that demand one."""
    return torch.ones(1, frames(drawn), dtype=torch.long)


def boxes(drawn: Drawing) -> Tensor:
    """[item, token, (left, top, right, bottom)], right of left and below top."""
    corners = torch.randint(0, 32, (1, drawn.tokens, 2), generator=drawn.generator)
    found = torch.cat([corners, corners + 8], dim=-1)
    return found.to(drawn.model.dtype) / 64 if drawn.kind == "bros" else found


def past_values(drawn: Drawing) -> Tensor:
    """The history of a time series; lagged values reach back behind the context."""
    length = drawn.size("context_length", default=32)
    if drawn.kind.startswith("patchts"):
        return drawn.floats(1, length, drawn.size("num_input_channels"))
    lags = getattr(drawn.config, "lags_sequence", None) or [0]
    return drawn.floats(1, length + max(lags))


def past_time_features(drawn: Drawing) -> Tensor:
    return drawn.floats(*past_values(drawn).shape, drawn.size("num_time_features"))


def features(name: str, default: int = 1) -> Callable[[Drawing], Tensor]:
    """[item, token, feature] with the number of features that an attribute says."""
    return lambda drawn: drawn.floats(1, drawn.tokens, drawn.size(name, default=default))


Maker = Callable[[Drawing], Any]
MAKERS: Mapping[str, Maker] = {
    # text
    "input_ids": input_ids,
    "decoder_input_ids": decoder_input_ids,
    "qformer_input_ids": lambda drawn: drawn.ids(64, 1, drawn.tokens),
    "task_inputs": lambda drawn: drawn.ids(64, 1, drawn.size("task_seq_len")),
    "bbox": boxes,
    "attention_mask": lambda drawn: torch.ones(1, drawn.tokens, dtype=torch.long),
    # images and videos
    "pixel_values": pixel_values,
    "image": image,
    "pixel_values_videos": video,
    "flattened_patches": placed_patches,
    "grid_thw": grid,
    "image_grid_thw": grid,
    "spatial_shapes": lambda drawn: torch.tensor([[GRID_SIDE, GRID_SIDE]]),
    "pixel_attention_mask": lambda drawn: torch.ones(1, GRID_SIDE**2, dtype=torch.long),
    "target_sizes": lambda drawn: torch.tensor([[GRID_SIDE, GRID_SIDE]]),
    "image_attention_mask": lambda drawn: torch.ones(1, drawn.tokens, 1, dtype=torch.long),
    "merge_sizes": lambda drawn: torch.ones(1, dtype=torch.long),
    "aspect_ratio_ids": lambda drawn: torch.ones(1, 1, dtype=torch.long),
    "aspect_ratio_mask": lambda drawn: torch.ones(
        1, 1, drawn.size("max_num_tiles"), dtype=torch.long
    ),
    "noise": noise,
    "visual_feats": features("visual_feat_dim"),
    "visual_pos": features("visual_pos_dim"),
    # sound
    "input_values": waveform,
    "decoder_input_values": sequence,
    "input_features": input_features,
    "input_features_mask": all_frames,
    "feature_lens": lambda drawn: torch.tensor([frames(drawn)]),
    "spectrogram": features("model_in_dim"),
    "mel_spectrogram": lambda drawn: drawn.floats(1, drawn.size("mel_dim"), drawn.tokens),
    "audio_mel": lambda drawn: drawn.floats(1, frames(drawn), bins(drawn)),
    "audio_mel_mask": lambda drawn: torch.zeros(1, frames(drawn), dtype=torch.bool),
    "latents": lambda drawn: drawn.floats(1, drawn.width, drawn.tokens),
    # features of other parts
    "hidden_states": hidden_states,
    "inputs_embeds": sequence,
    "query_embeds": sequence,
    "context": sequence,
    "inputs": lambda drawn: waveform(drawn) if "speech" in drawn.kind else sequence(drawn),
    # time series and decisions
    "past_values": past_values,
    "past_time_features": past_time_features,
    "past_observed_mask": lambda drawn: torch.ones_like(past_values(drawn)),
    "past_values_padding": lambda drawn: torch.zeros_like(past_values(drawn)),
    "freq": lambda drawn: torch.zeros(1, 1, dtype=torch.long),
    "states": features("state_dim"),
    "actions": features("act_dim"),
    "rewards": features("reward_dim"),
    "returns_to_go": features("return_dim"),
    "timesteps": lambda drawn: torch.arange(drawn.tokens).unsqueeze(0),
}
