"""The cheapest input on which a model shows its structure: a short text, or a small image where the model takes one.

Images have a size of the model's own, and verification on it costs as much as the run itself. A model of one row of
patches takes smaller ones if it interpolates its positions. Models that merge patches or attend in windows get their own
size: a window larger than the image is another path through their code, and some remember it. For all others of fixed
size, the residual streams are truncated where the blocks take them in.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attncli.capture.attention_function_registry import force_eager_attention
from attncli.capture.model_structure.truncate_residual_stream_tokens import (
    StreamTruncation,
    find_residual_stream_truncation,
)
from attncli.forward_argument_types import Inputs
from attncli.models.model_classes import find_forward_signature, iter_nested_configs
from attncli.models.random.dummy_inputs import does_model_accept_inputs, make_example_inputs

FITTED = "interpolate_pos_encoding"
"""The argument by which many forwards interpolate their positions to an image."""

NOT_ONE_ROW = frozenset(
    {"depths", "num_stages", "sr_ratios", "strides", "window_size", "windows", "global_attn_indexes"}
)  # fmt: skip
"""Config attributes of models that merge patches or attend in windows."""


def make_short_inputs(model: PreTrainedModel, tokens: int) -> dict[str, Tensor]:
    """Make inputs under which the model's forward runs; full-sized ones if it takes no smaller ones."""
    usual = make_example_inputs(model, tokens)
    if "pixel_values" not in usual or not can_run_batch_of_one(model):
        return usual
    small = make_example_inputs(model, tokens, small=True)
    if small["pixel_values"].numel() >= usual["pixel_values"].numel():
        return usual
    if FITTED in find_forward_signature(model).parameters:
        small[FITTED] = torch.tensor(True)  # inputs are tensors
    return small if does_model_accept_inputs(model, small) else usual


def find_truncation_for_verification(
    model: PreTrainedModel, inputs: Inputs, tokens: int
) -> StreamTruncation:
    """Find where an image's or a sound's stream, too long for verification, can be truncated behind the embeddings."""
    measured = any(value.is_floating_point() for value in inputs.values())
    return (
        find_residual_stream_truncation(model, inputs, tokens, can_run_as_configured_and_eager)
        if measured and not is_hierarchical_vision_model(model)
        else StreamTruncation()
    )


def can_run_as_configured_and_eager(model: nn.Module, inputs: Inputs) -> bool:
    """Whether the model runs on these inputs as it is set and with eager attention: only one may read a mask's width."""
    if not does_model_accept_inputs(model, inputs):
        return False
    with force_eager_attention(model):
        return does_model_accept_inputs(model, inputs)


def can_run_batch_of_one(model: PreTrainedModel) -> bool:
    with_patches = any("patch_size" in vars(config) for config in iter_nested_configs(model.config))
    return with_patches and not is_hierarchical_vision_model(model)


def is_hierarchical_vision_model(model: PreTrainedModel) -> bool:
    """Whether the model merges patches or attends in windows."""
    return any(
        vars(config).get(name)
        for config in iter_nested_configs(model.config)
        for name in NOT_ONE_ROW
    )
