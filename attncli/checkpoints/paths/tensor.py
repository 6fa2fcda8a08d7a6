"""The full stream and its parts by path length, in one tensor that goes through a model's own code.

To the model it looks like a batch: text 0 is the full stream, text 1 + k the sum of all paths of length k so far. Axis
0 may hold more than the batch (GPT-2 puts tokens there), so what belongs to one stream is a run of rows.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.checkpoints.structure.carried import Carried, Table, caller, entering
from attncli.errors import InputError

RULES: Table = {}
rule = entering(RULES)


@dataclass(frozen=True)
class Streams:
    """How many streams there are, and what moves them on."""

    lengths: int
    """Streams beside the full one: lengths 0 … lengths - 1."""
    count_attention: bool
    """A step is an attention; else it is an MLP."""
    heads: list[int] = field(default_factory=list)
    """Heads of each attention that the streams went through, in order."""
    head_outputs: list[Tensor] = field(default_factory=list)
    """What each attention's heads gave the full stream [head, token, value]; kept only where there is no other stream."""

    @property
    def number(self) -> int:
        return 1 + self.lengths

    def attended(self, outputs: Tensor) -> Tensor:
        """Takes note of an attention's outputs [stream, head, token, value]."""
        self.heads.append(outputs.shape[1])
        if self.lengths == 0:
            self.head_outputs.append(outputs)
        return outputs


class PathTensor(Carried):
    """Streams along axis 0, the full one first."""

    rules = RULES
    numbers: Tensor
    streams: Streams
    activated: bool
    """It comes straight from an activation: where two streams are multiplied this one is the gate."""

    @staticmethod
    def __new__(cls, numbers: Tensor, streams: Streams, activated: bool = False) -> "PathTensor":
        made = Tensor._make_wrapper_subclass(
            cls, numbers.shape, dtype=numbers.dtype, device=numbers.device
        )
        made.numbers, made.streams, made.activated = numbers, streams, activated
        return made

    @classmethod
    def refusal(cls, what: str) -> InputError:
        return refusal(what)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PathTensor({tuple(self.shape)}, {self.streams.lengths} lengths)"

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
            raise refusal("a result whose first axis is not the batch")
        return PathTensor(numbers, self.streams, activated)

    def times_frozen(self, factor: Tensor, activated: bool = False) -> "PathTensor":
        """Every stream times one factor [rows of one stream, …]."""
        return self.like((self.by_stream() * factor).reshape(self.shape), activated)

    def plus_constant(self, constant: Tensor) -> "PathTensor":
        """What is the same in every pass begins a path of length 0 here: it joins the full stream and that of length 0."""
        if np.broadcast_shapes(self.shape, constant.shape) != tuple(self.shape):
            raise refusal("an addition that repeats the stream")
        result = self.numbers.clone()
        rows = 2 * (self.shape[0] // self.streams.number)
        result[:rows] += constant.expand(self.shape)[:rows]
        return self.like(result)

    def moved_on(self) -> "PathTensor":
        """One step further: what had length k has k + 1."""
        if self.streams.lengths == 0:
            return self
        parts = self.by_stream()
        if bool(parts[-1].any()):
            raise refusal("a block with more steps than one")
        moved = torch.zeros_like(parts)
        moved[0] = parts[0]
        moved[2:] = parts[1:-1]
        return self.like(moved.reshape(self.shape))


def refusal(what: str) -> InputError:
    return InputError(
        f"attn paths has no rule for {what}, which {caller()} uses: this architecture cannot be decomposed."
    )


def begun(stream: Tensor, streams: Streams) -> PathTensor:
    """The first block's input: all of it is a path of length 0."""
    numbers = stream.new_zeros((streams.number, *stream.shape[1:]))
    numbers[:2] = stream
    return PathTensor(numbers, streams)
