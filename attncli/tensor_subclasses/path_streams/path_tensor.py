"""The full stream and its parts, in one tensor that goes through a model's own code.

To the model it looks like a batch: text 0 is the full stream, the others are parts of it (`streams` says which). Axis
0 may hold more than the batch (GPT-2 puts tokens there), so what belongs to one stream is a run of rows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from attncli.errors import InputError
from attncli.tensor_subclasses.dispatch import StreamTensor, Table, register_rules_in
from attncli.tensor_subclasses.path_streams.streams import Streams, no_rule_error

RULES: Table = {}
rule = register_rules_in(RULES)


class PathTensor(StreamTensor):
    """Streams along axis 0, the full one first."""

    rules = RULES
    numbers: Tensor
    streams: Streams
    activated: bool
    """It comes straight from an activation: where two streams are multiplied this one is the gate."""
    attended: bool
    """It has been through its block's attention, or part of it has; what it meets that has not went past."""

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
    def refusal(cls, what: str) -> InputError:
        return no_rule_error(what)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PathTensor({tuple(self.shape)}, {self.streams.number} streams)"

    def by_stream(self) -> Tensor:
        """[stream, rows of one stream, …]"""
        return self.numbers.reshape(self.streams.number, -1, *self.shape[1:])

    def full(self) -> Tensor:
        """The full stream alone, with the batch of one that the model was given."""
        rows = self.shape[0] // self.streams.number
        return self.numbers[:rows]

    def like(self, numbers: Tensor, activated: bool = False) -> "PathTensor":
        """Other numbers of the same streams; axis 0 must still begin with them."""
        if numbers.dim() == 0 or numbers.shape[0] % self.streams.number:
            raise no_rule_error("a result whose first axis is not the batch")
        return PathTensor(numbers, self.streams, activated, self.attended)

    def times_frozen(self, factor: Tensor, activated: bool = False) -> "PathTensor":
        """Every stream times one factor [rows of one stream, …]."""
        return self.like((self.by_stream() * factor).reshape(self.shape), activated)

    def plus_constant(self, constant: Tensor) -> "PathTensor":
        """What is the same in every pass joins the full stream, and the part that is made for constants."""
        if np.broadcast_shapes(self.shape, constant.shape) != tuple(self.shape):
            raise no_rule_error("an addition that repeats the stream")
        result, everywhere = self.numbers.clone(), constant.expand(self.shape)
        rows = self.shape[0] // self.streams.number
        for stream in self.streams.constants:
            own = slice(stream * rows, (stream + 1) * rows)
            result[own] += everywhere[own]
        return self.like(result)

    def changed(self, change: Callable[[Tensor], Tensor]) -> "PathTensor":
        """What the streams' kind makes of them [stream, …] at some point of the way."""
        return self.like(change(self.by_stream()).reshape(self.shape))

    def after_attention(self) -> "PathTensor":
        """As it comes out of its block's attention."""
        moved = self.changed(self.streams.after_attention)
        return PathTensor(moved.numbers, self.streams, attended=True)

    def entering_block(self) -> "PathTensor":
        """As it comes to the next block, whose attention is before it."""
        return PathTensor(self.numbers, self.streams)


def align_streams(tensors: Sequence[PathTensor]) -> list[PathTensor]:
    """Streams that are about to be put together, some of them from a block's attention and others from past it."""
    if len({each.attended for each in tensors}) == 1:
        return list(tensors)
    return [
        PathTensor(own.numbers, own.streams, attended=True)
        for each in tensors
        for own in [each if each.attended else each.changed(each.streams.past_attention)]
    ]


def begin_streams(stream: Tensor, streams: Streams) -> PathTensor:
    """The first block's input."""
    return PathTensor(streams.begin(stream), streams)
