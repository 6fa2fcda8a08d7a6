"""Inputs of models that see images and videos."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attncli.models.model_classes import iter_nested_configs
from attncli.models.random.random_inputs.input_sampler import (
    InputSampler,
    Maker,
    make_features_maker,
    sample_feature_sequence,
)

FRAMES = 4
"""Frames of a video if the config does not set its length."""
FRAMES_FIRST_IMAGES = {"instructblipvideo", "timesformer", "videomae", "vivit", "xclip"}
"""`pixel_values` of these types are videos."""
IMAGE_PAIRS = {"superglue", "lightglue", "efficientloftr"}
IMAGE_LISTS = {"idefics", "colmodernvbert"}
"""`pixel_values` of these types have an axis of images."""
PATCH_IMAGES = {"kimi_k25_vision", "paddleocr_vl_vision"}
BATCHED_PATCHES = {"spatial_shapes", "pixel_position_ids"}
"""Inputs that accompany `pixel_values` of shape [image, patch, pixel]."""
ANY_SIDE = 64
"""Pixels along each side of an image that may have any size."""
GRID_SIDE = 4
"""Patches along each side of an example image that is given as patches."""


def make_pixel_values(drawn: InputSampler) -> Tensor:
    """[image, channel, row, column], or the patches of one image for models that take those."""
    if drawn.model_type in PATCH_IMAGES:
        return make_patch_images(drawn)
    if drawn.model_type == "mllama_vision_model":
        return make_image(drawn)[:, None, None].repeat(
            1, 1, drawn.read_config_size("max_num_tiles"), 1, 1, 1
        )
    if "grid_thw" in drawn.names:
        return make_flat_patches(drawn)
    if drawn.model_type == "inkling2_vision":
        return make_merged_patches(drawn)
    if drawn.model_type == "inkling_vision":
        return make_video_patches(drawn)
    if BATCHED_PATCHES & drawn.names or drawn.model_type in ("siglip2", "molmo2_vision"):
        return make_flat_patches(drawn).unsqueeze(0)
    if drawn.model_type in FRAMES_FIRST_IMAGES:
        return make_video(drawn)
    if drawn.model_type == "xclip_vision_model":
        return make_video(drawn).squeeze(0)
    if drawn.model_type in IMAGE_PAIRS:
        return torch.stack([make_image(drawn), make_image(drawn)], dim=1)
    if drawn.model_type in IMAGE_LISTS:
        return make_image(drawn).unsqueeze(1)
    if drawn.model_type == "pi0":
        return make_image(drawn)[:, None]
    return make_image(drawn)


def make_image(drawn: InputSampler) -> Tensor:
    channels = drawn.read_config_size("num_channels", "in_channels", "in_chans", default=3)
    rows, columns = choose_image_sides(drawn)
    return drawn.sample_normal_floats(1, channels, rows, columns)


def choose_image_sides(drawn: InputSampler) -> tuple[int, int]:
    rows, columns = read_default_image_sides(drawn)
    if not drawn.small:
        return rows, columns
    most = GRID_SIDE * drawn.read_config_size("patch_size")
    return min(rows, most), min(columns, most)


def read_default_image_sides(drawn: InputSampler) -> tuple[int, int]:
    names = ("image_size", "img_size", "input_size", "pretrain_image_size", "max_img_size")
    ratios = getattr(drawn.config, "scaled_images_ratios", None)
    if ratios:  # the smallest feature map must contain a patch
        side = round(drawn.read_config_size("patch_size") / min(ratios))
        return side, side
    # the config's size is that of image and prompt, one above the other
    if drawn.model_type == "seggpt":
        return (shorter := min(drawn.config.image_size)), shorter
    for config in iter_nested_configs(drawn.config):
        for name in names:
            side = vars(config).get(name)
            if isinstance(side, int):
                return side, side
            if isinstance(side, (list, tuple)) and len(side) == 2:
                return side[0], side[1]
    side = choose_image_side_for_queries(drawn)
    return side, side


def choose_image_side_for_queries(drawn: InputSampler) -> int:
    """The image side for detectors, which choose their queries among the cells of all feature maps."""
    strides = getattr(drawn.config, "feat_strides", None) or []
    queries, side = getattr(drawn.config, "num_queries", 0), ANY_SIDE
    while strides and sum((side // stride) ** 2 for stride in strides) < queries:
        side += ANY_SIDE
    return side


def make_video(drawn: InputSampler) -> Tensor:
    frames = drawn.read_config_size("num_frames", "frames_per_clip", default=FRAMES)
    return torch.stack([make_image(drawn) for _ in range(frames)], dim=1)


def make_patch_noise(drawn: InputSampler) -> Tensor:
    """One number per patch, by which MAE chooses the patches to hide."""
    rows, columns = (
        side // drawn.read_config_size("patch_size") for side in choose_image_sides(drawn)
    )
    return drawn.sample_normal_floats(1, rows * columns)


def count_image_patches(drawn: InputSampler) -> int:
    """Patches of one image: as many as there are positions where a model needs all."""
    side = (
        -(-GRID_SIDE // (pool := drawn.read_config_size("pooling_kernel_size", default=1))) * pool
    )
    return (
        drawn.read_config_size("num_position_embeddings", default=side**2)
        if drawn.model_type == "molmo2_vision"
        else side**2
    )


def make_merged_patches(drawn: InputSampler) -> Tensor:
    """[token, row, column, channel]: the neighbouring patches that become one token."""
    side = drawn.read_config_size("patch_size") * drawn.read_config_size("spatial_merge_size")
    return drawn.sample_normal_floats(
        GRID_SIDE**2, side, side, drawn.read_config_size("num_channels")
    )


def make_video_patches(drawn: InputSampler) -> Tensor:
    """[patch, frame, row, column, channel]"""
    side = drawn.read_config_size("patch_size")
    return drawn.sample_normal_floats(
        GRID_SIDE,
        drawn.read_config_size("temporal_patch_size"),
        side,
        side,
        drawn.read_config_size("num_channels"),
    )


def make_patch_positions(drawn: InputSampler) -> Tensor:
    """[image, patch, (column, row)]"""
    side = round(count_image_patches(drawn) ** 0.5)
    return torch.cartesian_prod(*[torch.arange(side)] * 2).flip(1).unsqueeze(0)


def make_flat_patches(drawn: InputSampler) -> Tensor:
    """[patch, channel · frame · row · column] of one image."""
    patch = drawn.read_config_size("patch_size")
    channels = drawn.read_config_size("in_channels", "in_chans", "num_channels", default=3)
    depth = drawn.read_config_size("temporal_patch_size", "patch_temporal", default=1)
    return drawn.sample_normal_floats(count_image_patches(drawn), channels * depth * patch**2)


def make_patch_images(drawn: InputSampler) -> Tensor:
    """[patch, channel, row, column], behind an axis of items for PaddleOCR."""
    patch = drawn.read_config_size("patch_size")
    found = make_flat_patches(drawn).reshape(GRID_SIDE**2, -1, patch, patch)
    return found if drawn.model_type == "kimi_k25_vision" else found.unsqueeze(0)


def make_patch_grid(drawn: InputSampler) -> Tensor:
    """[image, (frames, rows, columns)] of `make_flat_patches`."""
    return torch.tensor([[1, GRID_SIDE, GRID_SIDE]])


def make_patches_with_positions(drawn: InputSampler) -> Tensor:
    """[image, patch, (row, column, pixels …)], rows and columns counted from 1."""
    features = drawn.read_config_size("patch_embed_hidden_size", default=0)
    features = (
        features
        or drawn.read_config_size("num_channels", default=3)
        * drawn.read_config_size("patch_size") ** 2
    )
    places = torch.cartesian_prod(*[torch.arange(1, GRID_SIDE + 1)] * 2).to(drawn.model.dtype)
    pixels = drawn.sample_normal_floats(GRID_SIDE**2, features)
    return torch.cat([places, pixels], dim=1).unsqueeze(0)


MAKERS: Mapping[str, Maker] = {
    "pixel_values": make_pixel_values,
    "image": make_image,
    "pixel_values_videos": make_video,
    "flattened_patches": make_patches_with_positions,
    "grid_thw": make_patch_grid,
    "image_grid_thw": make_patch_grid,
    "spatial_shapes": lambda drawn: torch.tensor([[GRID_SIDE, GRID_SIDE]]),
    "pixel_position_ids": make_patch_positions,
    "pixel_attention_mask": lambda drawn: (
        torch.ones(1, 1, dtype=torch.bool)
        if drawn.model_type == "pi0"
        else torch.ones(1, GRID_SIDE**2, dtype=torch.long)
    ),
    "patch_embeds": lambda drawn: (
        drawn.sample_normal_floats(1, drawn.hidden_size, GRID_SIDE, GRID_SIDE)
        if drawn.model_type == "unlimited_ocr_vision_encoder"
        else sample_feature_sequence(drawn)
    ),
    "target_sizes": lambda drawn: torch.tensor([[GRID_SIDE, GRID_SIDE]]),
    "image_attention_mask": lambda drawn: torch.ones(1, drawn.tokens, 1, dtype=torch.long),
    "merge_sizes": lambda drawn: torch.ones(1, dtype=torch.long),
    "aspect_ratio_ids": lambda drawn: torch.ones(1, 1, dtype=torch.long),
    "aspect_ratio_mask": lambda drawn: torch.ones(
        1, 1, drawn.read_config_size("max_num_tiles"), dtype=torch.long
    ),
    "noise": make_patch_noise,
    "visual_feats": make_features_maker("visual_feat_dim"),
    "visual_pos": make_features_maker("visual_pos_dim"),
}
