"""Forwards that verify the anatomy: tracking changes nothing, and nothing bypasses the additions."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from attncli.ablation.block_structure_checks import describe_block
from attncli.ablation.run_blocks_under_tracker import Feed, alias_residual_stream, track_blocks
from attncli.ablation.stream_tracking.ablation_policies import DropAdditions, KeepPolicy, Mixing
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.errors import InputError
from attncli.forward_argument_types import Inputs
from attncli.tolerances import TRACKED_OUTPUT

Seen = list[tuple[BlockRun, list[torch.Tensor]]]
"""Every run of a block in one forward, with its output; with both where it has two streams."""


def run_model_with_tracking(
    model: nn.Module,
    inputs: Inputs,
    stacks: tuple[BlockStack, ...],
    parts: KeepPolicy,
    feed: Feed = alias_residual_stream,
) -> Seen:
    """Run one tracked forward."""
    found: Seen = []

    def save_block_run(run: BlockRun, outputs: list[torch.Tensor]) -> None:
        found.append((run, [output.clone() for output in outputs]))

    with fix_random_seed(), track_blocks(model, stacks, parts, save_block_run, feed):
        model(**inputs)
    return found


def check_tracking_unchanged(tracked: Seen, plain: Iterable[torch.Tensor]) -> None:
    """Refuse a model whose blocks return something else under tracking."""
    for (run, (output, *_)), expected in zip(tracked, plain, strict=True):
        allowed = TRACKED_OUTPUT.tolerance_for_dtype(output.dtype)
        largest = expected.abs().max()
        if not (output - expected).abs().max() <= allowed * largest:
            raise InputError(
                f"{describe_block(run.stack, run.call)} gives another output when its tensors are followed: "
                "its code is not understood."
            )


def check_output_needs_residual_stream(
    model: nn.Module,
    inputs: Inputs,
    stacks: tuple[BlockStack, ...],
    mixing: Mixing,
    watched: AbstractContextManager[object] | None = None,
) -> None:
    """Check that with every recognised addition returning zeros, a block's output does not depend on its input.

    The model is run twice, the second time (`watched`) with noise in place of every block's input, the same for all tokens:
    a path past the additions, however it is written, shows as a difference. It is the model itself and no random-init model: that may be built
    otherwise, and a path that this model's own weights close carries nothing.
    """
    zeroed = run_model_with_tracking(model, inputs, stacks, DropAdditions(mixing))
    with watched or nullcontext():
        noisy = run_model_with_tracking(
            model, inputs, stacks, DropAdditions(mixing), replace_block_input_by_noise
        )
    for (run, ones), (_, others) in zip(zeroed, noisy, strict=True):
        if not all(map(torch.equal, ones, others)):
            raise InputError(
                f"{describe_block(run.stack, run.call)} lets its input pass outside the recognised additions: "
                "it cannot be ablated."
            )


def replace_block_input_by_noise(run: BlockRun, stream: torch.Tensor) -> torch.Tensor:
    """Noise in place of a block's input; of [batch, token, feature] all tokens are equal."""
    noise = torch.randn_like(stream)
    return noise[:, :1].expand_as(noise).contiguous() if noise.dim() == 3 else noise
