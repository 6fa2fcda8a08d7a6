"""Partial streams alongside the full stream, and what attentions, MLPs and constants do to them.

One class for each question: paths by length, single paths, contributions of inputs and of constants.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.tensor_subclasses.torch_function_rules import find_running_model_code_line


class RecordedAttention(NamedTuple):
    """What an attention did to the streams."""

    maps: Tensor
    """[1, head, query, key]: the full stream's."""
    visible: Tensor | None
    """[1, 1, query or 1, key] bool: keys that the mask leaves visible; None where it leaves all."""
    outputs: Tensor
    """[stream, head, query, value]: the values as the maps weigh them."""


class Streams:
    """The full stream (stream 0), alone or followed by partial ones; subclasses define how these change."""

    partial = 0
    """The number of partial streams."""
    constants: tuple[int, ...] = (0,)
    """The streams to which constants are added."""
    tells_apart = False
    """Whether it matters which part bypassed an attention."""

    def __init__(self) -> None:
        self.heads: list[int] = []
        """The number of heads of each attention that the streams went through, in order."""

    @property
    def path_stream_count(self) -> int:
        return 1 + self.partial

    def make_initial_path_streams(self, first: Tensor) -> Tensor:
        """Turn the first block's input [1, token, feature] into [stream, token, feature]."""
        return first.clone()

    def select_attention_outputs_per_path(self, attention: RecordedAttention) -> Tensor:
        """Choose what each stream keeps of an attention's outputs."""
        self.heads.append(attention.outputs.shape[1])
        return attention.outputs

    def update_paths_after_attention(self, parts: Tensor) -> Tensor:
        """Move streams [stream, …] on after an attention."""
        return parts

    def update_paths_bypassing_attention(self, parts: Tensor) -> Tensor:
        """Move on streams [stream, …] that bypassed their block's attention, where they join its output."""
        return parts

    def update_paths_after_mlp(self, parts: Tensor) -> Tensor:
        """Move streams [stream, …] on after an MLP's nonlinearity."""
        return parts


class FullStreamOnly(Streams):
    """The full stream alone, for a backward pass: records its attentions."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions: list[RecordedAttention] = []

    def select_attention_outputs_per_path(self, attention: RecordedAttention) -> Tensor:
        self.attentions.append(attention)
        return super().select_attention_outputs_per_path(attention)


class OriginStreams(Streams):
    """Stream 1 comes from the first block's input, stream 2 from constants on the way."""

    partial = 2
    constants = (0, 2)

    def make_initial_path_streams(self, first: Tensor) -> Tensor:
        return torch.cat([first, first, torch.zeros_like(first)])


class LengthStreams(Streams):
    """All paths of one length form one stream; a constant begins a path of length 0 where it is added.

    Streams 1, 2 … are a grid [attentions, MLPs] of how many of each a path went through; what is not counted has one
    place on its axis.
    """

    constants = (0, 1)

    def __init__(self, attentions: int = 0, mlps: int = 0) -> None:
        """The largest number of steps of each kind; 0 where they are not counted."""
        super().__init__()
        self.most = (attentions, mlps)
        self.partial = (1 + attentions) * (1 + mlps)

    def make_initial_path_streams(self, first: Tensor) -> Tensor:
        numbers = first.new_zeros((self.path_stream_count, *first.shape[1:]))
        numbers[:2] = first
        return numbers

    def update_paths_after_attention(self, parts: Tensor) -> Tensor:
        return self.lengthen_paths_by_one_step(parts, 0)

    def update_paths_after_mlp(self, parts: Tensor) -> Tensor:
        return self.lengthen_paths_by_one_step(parts, 1)

    def lengthen_paths_by_one_step(self, parts: Tensor, kind: int) -> Tensor:
        """Move one step on: paths with k steps of this kind now have k + 1."""
        most = self.most[kind]
        if most == 0:
            return parts
        places = (*(1 + steps for steps in self.most), *parts.shape[1:])
        before = parts[1:].view(places)
        if bool(before.select(kind, most).any()):
            raise make_missing_rule_error("a block with more steps than one")
        moved = torch.zeros_like(parts)
        moved[0] = parts[0]
        moved[1:].view(places).narrow(kind, 1, most).copy_(before.narrow(kind, 0, most))
        return moved


class PathStreams(Streams):
    """Single paths, without constants on the way: each goes through a head of every attention, or bypasses it."""

    tells_apart = True

    def __init__(self, paths: Sequence[Sequence[int]]) -> None:
        """A path has one choice for each attention: 0 bypasses it, 1 … H are heads."""
        super().__init__()
        self.paths = paths
        self.partial = len(paths)

    def make_initial_path_streams(self, first: Tensor) -> Tensor:
        return first.repeat(self.path_stream_count, 1, 1)

    def select_attention_outputs_per_path(self, attention: RecordedAttention) -> Tensor:
        outputs = super().select_attention_outputs_per_path(attention)
        included = torch.zeros_like(outputs)
        included[0] = outputs[0]
        for stream, choice in self.iter_head_chosen_by_each_path():
            if choice:
                included[stream, choice - 1] = outputs[stream, choice - 1]
        return included

    def update_paths_bypassing_attention(self, parts: Tensor) -> Tensor:
        """Drop the bypass for paths that go through a head."""
        included = parts.clone()
        included[[stream for stream, choice in self.iter_head_chosen_by_each_path() if choice]] = (
            0.0
        )
        return included

    def iter_head_chosen_by_each_path(self) -> Iterator[tuple[int, int]]:
        """Each stream's choice at the attention that was recorded last."""
        last = len(self.heads) - 1
        return ((1 + index, path[last]) for index, path in enumerate(self.paths))


def make_missing_rule_error(what: str) -> InputError:
    return InputError(
        f"there is no rule for {what}, which {find_running_model_code_line()} uses: this architecture cannot be decomposed."
    )
