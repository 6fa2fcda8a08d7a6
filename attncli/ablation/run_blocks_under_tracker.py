"""The context in which every block runs under a tracker."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from attncli.ablation.block_structure_checks import describe_block
from attncli.ablation.norm_layers import is_norm_layer
from attncli.ablation.stream_tracking.ablation_policies import KeepPolicy
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.ablation.stream_tracking.tensor_tags import Tag, attach_stream_tag
from attncli.ablation.stream_tracking.torch_function_tracker import Tracker
from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import (
    BlockFollower,
    BlockStack,
    collect_distinct_blocks,
    map_block_modules_to_paths,
)
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    replace_tensor_argument,
    select_nth_nested_tensor,
)
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Kwargs, Output

Done = Callable[[BlockRun, list[torch.Tensor]], None]
"""done(run, output streams), after each block."""
Feed = Callable[[BlockRun, torch.Tensor], torch.Tensor]
"""Replaces a block's stream."""


def alias_residual_stream(run: BlockRun, stream: torch.Tensor) -> torch.Tensor:
    """Alias the stream, so that no tag is left on the caller's tensor."""
    return stream.view_as(stream)


@contextmanager
def track_blocks(
    model: nn.Module,
    stacks: tuple[BlockStack, ...],
    parts: KeepPolicy,
    done: Done,
    feed: Feed = alias_residual_stream,
    values: bool = False,
    summands: bool = False,
) -> Iterator[None]:
    """Within, every forward of `model` runs its blocks under trackers with the policy `parts`.

    With `values`, each block's run keeps its stream at all points until it is done; with `summands`, the addends. There is no
    autograd, and tensors keep version counters, which show changes in place.
    """
    parts_of_blocks = map_block_modules_to_paths(model, stacks)
    norms = {module: name for module, name in parts_of_blocks.items() if is_norm_layer(module)}
    tracked = BlockTracking(BlockFollower(stacks), parts, norms, done, feed, values, summands)
    with (
        wrap_forwards([model], tracked.run_wrapped_model),
        wrap_forwards(collect_distinct_blocks(stacks), tracked.run_wrapped_block),
        wrap_forwards(norms, tracked.run_wrapped_norm_layer),
    ):
        yield


@dataclass
class BlockTracking:
    """Wraps the forwards of the model, its blocks and the norms in them."""

    following: BlockFollower
    parts: KeepPolicy
    norms: Mapping[nn.Module, str]
    done: Done
    feed: Feed
    values: bool
    summands: bool
    tracker: Tracker | None = None
    """Of the block that runs."""

    def run_wrapped_model(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        """Run one forward: its blocks are counted from the first."""
        self.following.done = 0
        with torch.inference_mode(False), torch.no_grad():
            output = forward(*args, **kwargs)
        self.following.require_all_blocks_ran()
        return output

    def run_wrapped_block(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        """Run a block once, on an alias of its stream."""
        stack, call = self.following.locate_block_call(module)
        run = BlockRun(stack.name, call, {} if self.values else None, [] if self.summands else None)
        args, kwargs = self.tag_block_inputs(run, args, kwargs)
        self.tracker = Tracker(run, self.parts)
        try:
            with self.tracker:
                output = forward(*args, **kwargs)
        finally:
            self.tracker = None
        results = [
            find_residual_stream_output(output),
            call.second and select_nth_nested_tensor(call.second[1], output),
        ]
        streams = [result for result in results if result is not None]
        tags = [run.find_tag_of_tensor(stream) for stream in streams]
        run.scaled |= any(tag.scaled for tag in tags if tag)
        run.outputs = tuple(
            point for tag in tags for point in (tag.pieces or (tag.point,) if tag else (None,))
        )
        self.done(run, streams)
        return output

    def tag_block_inputs(self, run: BlockRun, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """The block's arguments with aliases of its streams, tagged; other tensors are recorded."""
        stream = find_residual_stream_input(args, kwargs)
        if stream is None:
            raise InputError(f"{describe_block(run.stack, run.call)} is given no stream of tokens.")
        second = run.call.second and select_nth_nested_tensor(run.call.second[0], (args, kwargs))
        run.outside = {
            id(tensor)
            for tensor in iter_nested_tensors((args, kwargs))
            if tensor is not stream and tensor is not second and tensor.is_floating_point()
        }
        args, kwargs = replace_tensor_argument(
            args, kwargs, stream, self.tag_residual_stream_at_block_input(run, stream, "")
        )
        if second is not None:
            args, kwargs = replace_tensor_argument(
                args, kwargs, second, self.tag_residual_stream_at_block_input(run, second, "second")
            )
        return args, kwargs

    def tag_residual_stream_at_block_input(
        self, run: BlockRun, stream: torch.Tensor, key: str
    ) -> torch.Tensor:
        """A stream as the block receives it."""
        stream = self.feed(run, stream)
        point = run.make_residual_stream_point("input", key=key)
        attach_stream_tag(stream, Tag(run).move_tag_to_residual_stream_point(point))
        return stream

    def run_wrapped_norm_layer(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        """Run a norm module."""
        tracker, name = self.tracker, self.norms[module]
        if tracker is None or tracker.inside_norm:
            return forward(*args, **kwargs)
        activation = tracker.find_only_activation_argument(args, kwargs)
        if activation is None:
            tracker.refuse_conditioned_norm_layer(name, args, kwargs)
            return forward(*args, **kwargs)
        return tracker.evaluate_norm_layer(name, activation, forward, args, kwargs)
