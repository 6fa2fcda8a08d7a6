"""Test which branches without attention mix tokens: recurrences, convolutions, kernels; names are not used.

Every branch is computed and dropped, so that each token of the stream depends on its own input alone. Then one token of
every block's input is changed, and so are other stacks' states: a branch that then changes for other tokens mixes them.
Each block is tested by itself: it returns what it returned before.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.ablation.run_blocks_under_tracker import Feed, alias_residual_stream, track_blocks
from attncli.ablation.stream_tracking.ablation_policies import KeepStreamOnly, Mixing, Where
from attncli.ablation.stream_tracking.block_run_record import BlockRun, Summand
from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import BlockStack, collect_distinct_blocks
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    is_feature_map_channels_first,
    replace_tensor_argument,
)
from attncli.capture.other_mixers.token_mixers import sample_noise_like
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.tolerances import TOKEN_MIXING


class TokenMixingTest(NamedTuple):
    """The result of the test for every added branch."""

    mixing: Mixing
    unknown: Mixing
    """Branches without a result: every token of the stream changed, or the addend has another shape."""


def probe_token_mixing(
    model: nn.Module, inputs: Inputs, stacks: tuple[BlockStack, ...]
) -> TokenMixingTest:
    """Run two forwards; a branch that is added in pieces mixes tokens if one of its pieces does."""
    outputs: list[list[Tensor]] = []

    def save_block_outputs(inputs: list[Tensor]) -> None:
        outputs.append([output.clone() for output in inputs])

    def restore_block_outputs(inputs: list[Tensor]) -> None:
        for output, before in zip(inputs, outputs.pop(0), strict=True):
            output.copy_(before)

    first = record_residual_summands(
        model, inputs, stacks, alias_residual_stream, save_block_outputs
    )
    with wrap_forwards(collect_distinct_blocks(stacks), perturb_encoder_states):
        other = record_residual_summands(
            model, inputs, stacks, perturb_one_token, restore_block_outputs
        )
    mixing: set[Where] = set()
    unknown: set[Where] = set()
    for (where, layout, before), (_, _, after) in zip(first, other, strict=True):
        found = does_branch_mix_tokens(before, after, layout)
        if found is not False:
            (unknown if found is None else mixing).add(where)
    return TokenMixingTest(frozenset(mixing), frozenset(unknown))


def record_residual_summands(
    model: nn.Module,
    inputs: Inputs,
    stacks: tuple[BlockStack, ...],
    feed: Feed,
    done: Callable[[list[Tensor]], None],
) -> list[tuple[Where, "StreamShape", Summand]]:
    """Record all addends in one forward, in order; `done` receives every block's outputs, and may change them."""
    found: list[tuple[Where, StreamShape, Summand]] = []
    layouts: list[StreamShape] = []

    def record_residual_stream_layout(run: BlockRun, stream: Tensor) -> Tensor:
        layouts.append(find_residual_stream_layout(run, stream))
        return feed(run, stream)

    def collect_residual_summands(run: BlockRun, outputs: list[Tensor]) -> None:
        found.extend(
            ((run.stack, run.call.layer, each.place), layouts[-1], each)
            for each in run.summands or ()
        )
        done(outputs)

    with (
        fix_random_seed(),
        track_blocks(
            model,
            stacks,
            KeepStreamOnly(),
            collect_residual_summands,
            record_residual_stream_layout,
            summands=True,
        ),
    ):
        model(**inputs)
    return found


def perturb_encoder_states(
    forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
) -> Output:
    """Give a block other states besides its stream: of another stack, or of the one token that changes."""
    stream = find_residual_stream_input(args, kwargs)
    for tensor in iter_nested_tensors((args, kwargs)):
        if stream is not None and tensor is not stream and tensor.is_floating_point():
            args, kwargs = replace_tensor_argument(
                args, kwargs, tensor, make_perturbed_encoder_states(tensor, stream)
            )
    return forward(*args, **kwargs)


def make_perturbed_encoder_states(tensor: Tensor, stream: Tensor) -> Tensor:
    """Other states: of one token where it has a row for every token of the stream, of all where it is of another length.

    The same where it holds no states of tokens: masks, and what is one for a whole text.
    """
    rows = tensor.numel() // max(tensor.shape[-1], 1) if tensor.ndim in (2, 3) else 0
    if rows == stream.numel() // stream.shape[-1]:
        moved = tensor.clone()
        where = tuple(size // 2 for size in tensor.shape[:-1])
        moved[where] += sample_noise_like(moved[where])
        return moved
    several = tensor.ndim == 3 and rows > min(stream.shape[:2])
    return tensor + sample_noise_like(tensor) if several else tensor


class StreamShape(NamedTuple):
    """The shape of a block's input."""

    shape: tuple[int, ...]
    features: int
    """The feature axis."""

    @property
    def index_of_middle_token(self) -> tuple[int | slice, ...]:
        """The middle token: the middle of every other axis."""
        return tuple(
            slice(None) if axis == self.features else size // 2
            for axis, size in enumerate(self.shape)
        )


def find_residual_stream_layout(run: BlockRun, stream: Tensor) -> StreamShape:
    shape = tuple(stream.shape)
    first = len(shape) == 4 and is_feature_map_channels_first(run.call.module, shape)
    return StreamShape(shape, 1 if first else len(shape) - 1)


def perturb_one_token(run: BlockRun, stream: Tensor) -> Tensor:
    """Change one token of a block's input."""
    moved, middle = stream.clone(), find_residual_stream_layout(run, stream).index_of_middle_token
    moved[middle] += sample_noise_like(moved[middle])
    return moved


def does_branch_mix_tokens(before: Summand, after: Summand, layout: StreamShape) -> bool | None:
    """Whether a branch has changed where its stream has not; None where that cannot be seen."""
    if before.branch.shape != after.branch.shape or not are_summands_finite(before, after):
        return None
    same_layout = tuple(before.branch.shape) == layout.shape
    axis = layout.features if same_layout else before.branch.ndim - 1
    branch = find_changed_tokens(before.branch, after.branch, axis)
    if before.stream is not None and after.stream is not None:
        stream = find_changed_tokens(before.stream, after.stream, axis)
    elif same_layout:
        stream = torch.zeros_like(branch)
        stream[tuple(size // 2 for at, size in enumerate(layout.shape) if at != axis)] = True
    else:
        return None
    return None if bool(stream.all()) else bool((branch & ~stream).any())


def are_summands_finite(*summands: Summand) -> bool:
    return all(bool(each.branch.isfinite().all()) for each in summands)


def find_changed_tokens(before: Tensor, after: Tensor, features: int) -> Tensor:
    """The tokens at which two tensors differ by more than rounding."""
    least = TOKEN_MIXING.tolerance_for_dtype(before.dtype) * float(before.abs().max())
    return ((before - after).abs() > least).any(dim=features)
