"""The full stream and its parts, in one tensor that runs through a model's own code.

To the model it looks like a batch: text 0 is the full stream, the others are parts of it (see `partial_streams`). Axis
0 may combine more than the batch (GPT-2 folds tokens into it), so each stream is a block of consecutive rows.
"""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from attncli.errors import InputError
from attncli.tensor_subclasses.path_streams.partial_streams import Streams, make_missing_rule_error
from attncli.tensor_subclasses.torch_function_rules import (
    StreamTensor,
    Table,
    make_torch_function_rule_decorator,
)

RULES: Table = {}
rule = make_torch_function_rule_decorator(RULES)


class PathTensor(StreamTensor):
    """Streams along axis 0, the full one first."""

    rules = RULES
    numbers: Tensor
    streams: Streams
    activated: bool
    """Whether it comes directly from an activation: in a product of two streams this one is the gate."""
    attended: bool
    """Whether it went through its block's attention, at least in part; what it is added to bypassed that."""

    @staticmethod
    def __new__(
        cls, numbers: Tensor, streams: Streams, activated: bool = False, attended: bool = False
    ) -> "PathTensor":
        made = Tensor._make_wrapper_subclass(
            cls, numbers.shape, dtype=numbers.dtype, device=numbers.device
        )
        made.numbers, made.streams = numbers, streams
        made.activated, made.attended = activated, attended
        return made

    @classmethod
    def make_unsupported_function_error(cls, what: str) -> InputError:
        return make_missing_rule_error(what)

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"PathTensor({tuple(self.shape)}, {self.streams.path_stream_count} streams)"

    def view_with_path_stream_axis(self) -> Tensor:
        """[stream, rows of one stream, …]"""
        return self.numbers.reshape(self.streams.path_stream_count, -1, *self.shape[1:])

    def full_residual_stream(self) -> Tensor:
        """The full stream alone, with the model's batch of one."""
        rows = self.shape[0] // self.streams.path_stream_count
        return self.numbers[:rows]

    def wrap_as_path_streams(self, numbers: Tensor, activated: bool = False) -> "PathTensor":
        """Wrap other numbers of the same streams; axis 0 must still begin with them."""
        if numbers.dim() == 0 or numbers.shape[0] % self.streams.path_stream_count:
            raise make_missing_rule_error("a result whose first axis is not the batch")
        return PathTensor(numbers, self.streams, activated, self.attended)

    def multiply_all_path_streams(self, factor: Tensor, activated: bool = False) -> "PathTensor":
        """Multiply every stream by one factor [rows of one stream, …]."""
        return self.wrap_as_path_streams(
            (self.view_with_path_stream_axis() * factor).reshape(self.shape), activated
        )

    def add_constant_to_path_streams(self, constant: Tensor) -> "PathTensor":
        """Add a constant to the full stream, and to the partial stream of constants."""
        if np.broadcast_shapes(self.shape, constant.shape) != tuple(self.shape):
            raise make_missing_rule_error("an addition that repeats the stream")
        result, everywhere = self.numbers.clone(), constant.expand(self.shape)
        rows = self.shape[0] // self.streams.path_stream_count
        for stream in self.streams.constants:
            own = slice(stream * rows, (stream + 1) * rows)
            result[own] += everywhere[own]
        return self.wrap_as_path_streams(result)

    def transform_path_streams(self, change: Callable[[Tensor], Tensor]) -> "PathTensor":
        """Apply a transition of the streams' class to them [stream, …]."""
        return self.wrap_as_path_streams(
            change(self.view_with_path_stream_axis()).reshape(self.shape)
        )

    def mark_attention_output(self) -> "PathTensor":
        """Mark it as an output of its block's attention."""
        moved = self.transform_path_streams(self.streams.update_paths_after_attention)
        return PathTensor(moved.numbers, self.streams, attended=True)

    def mark_block_input(self) -> "PathTensor":
        """Mark it as input of the next block, before its attention."""
        return PathTensor(self.numbers, self.streams)


def align_path_streams(tensors: Sequence[PathTensor]) -> list[PathTensor]:
    """Align streams before they are combined, some of them from a block's attention and others from its bypass."""
    if len({each.attended for each in tensors}) == 1:
        return list(tensors)
    return [
        PathTensor(own.numbers, own.streams, attended=True)
        for each in tensors
        for own in [
            each
            if each.attended
            else each.transform_path_streams(each.streams.update_paths_bypassing_attention)
        ]
    ]


def make_initial_path_tensor(stream: Tensor, streams: Streams) -> PathTensor:
    """Begin the streams from the first block's input."""
    return PathTensor(streams.make_initial_path_streams(stream), streams)
