"""What goes side by side under the full stream, and what attentions, MLPs and constants do to it.

One kind for each question: paths by their length, single paths, what comes from the inputs and what from constants.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.tensor_subclasses.dispatch import calling_line


class RecordedAttention(NamedTuple):
    """What an attention did to the streams."""

    maps: Tensor
    """[1, head, query, key]: the full stream's."""
    visible: Tensor | None
    """[1, 1, query or 1, key] bool: what the mask leaves; None where it leaves all."""
    outputs: Tensor
    """[stream, head, query, value]: the values as the maps weigh them."""


class Streams:
    """The full stream alone, stream 0, or with partial ones after it; every kind says what becomes of those."""

    partial = 0
    """Streams beside the full one."""
    constants: tuple[int, ...] = (0,)
    """The streams that what is the same in every pass joins."""
    tells_apart = False
    """Whether it matters what went past an attention."""

    def __init__(self) -> None:
        self.heads: list[int] = []
        """Of each attention that the streams went through, in order."""

    @property
    def number(self) -> int:
        return 1 + self.partial

    def begin(self, first: Tensor) -> Tensor:
        """The first block's input [1, token, feature] as [stream, token, feature]."""
        return first.clone()

    def attended(self, attention: RecordedAttention) -> Tensor:
        """What each stream keeps of an attention's outputs."""
        self.heads.append(attention.outputs.shape[1])
        return attention.outputs

    def after_attention(self, parts: Tensor) -> Tensor:
        """Streams [stream, …] that have just been through an attention."""
        return parts

    def past_attention(self, parts: Tensor) -> Tensor:
        """Streams [stream, …] that went past their block's attention, where they meet what went through it."""
        return parts

    def after_mlp(self, parts: Tensor) -> Tensor:
        """Streams [stream, …] that have just been through an MLP's nonlinearity."""
        return parts


class FullStreamOnly(Streams):
    """For a backward pass: keeps what its attentions did."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions: list[RecordedAttention] = []

    def attended(self, attention: RecordedAttention) -> Tensor:
        self.attentions.append(attention)
        return super().attended(attention)


class OriginStreams(Streams):
    """Stream 1 is what comes from the first block's input, stream 2 what comes from constants on the way."""

    partial = 2
    constants = (0, 2)

    def begin(self, first: Tensor) -> Tensor:
        return torch.cat([first, first, torch.zeros_like(first)])


class LengthStreams(Streams):
    """All paths of one length so far are one stream; a constant begins a path of length 0 where it stands.

    Streams 1, 2 … are a grid [attentions, MLPs] of how many of each a path went through; what is not counted has one
    place on its axis.
    """

    constants = (0, 1)

    def __init__(self, attentions: int = 0, mlps: int = 0) -> None:
        """The most steps of each kind; 0 where they are not counted."""
        super().__init__()
        self.most = (attentions, mlps)
        self.partial = (1 + attentions) * (1 + mlps)

    def begin(self, first: Tensor) -> Tensor:
        numbers = first.new_zeros((self.number, *first.shape[1:]))
        numbers[:2] = first
        return numbers

    def after_attention(self, parts: Tensor) -> Tensor:
        return self.moved_on(parts, 0)

    def after_mlp(self, parts: Tensor) -> Tensor:
        return self.moved_on(parts, 1)

    def moved_on(self, parts: Tensor, kind: int) -> Tensor:
        """One step further: what has taken k of this kind has taken k + 1."""
        most = self.most[kind]
        if most == 0:
            return parts
        places = (*(1 + steps for steps in self.most), *parts.shape[1:])
        before = parts[1:].view(places)
        if bool(before.select(kind, most).any()):
            raise no_rule_error("a block with more steps than one")
        moved = torch.zeros_like(parts)
        moved[0] = parts[0]
        moved[1:].view(places).narrow(kind, 1, most).copy_(before.narrow(kind, 0, most))
        return moved


class PathStreams(Streams):
    """Single paths, without the constants on their way: each goes through a head of every attention, or past it."""

    tells_apart = True

    def __init__(self, paths: Sequence[Sequence[int]]) -> None:
        """A path's choices, one for each attention: 0 is past it, 1 … H a head."""
        super().__init__()
        self.paths = paths
        self.partial = len(paths)

    def begin(self, first: Tensor) -> Tensor:
        return first.repeat(self.number, 1, 1)

    def attended(self, attention: RecordedAttention) -> Tensor:
        outputs = super().attended(attention)
        kept = torch.zeros_like(outputs)
        kept[0] = outputs[0]
        for stream, choice in self.choices():
            if choice:
                kept[stream, choice - 1] = outputs[stream, choice - 1]
        return kept

    def past_attention(self, parts: Tensor) -> Tensor:
        """Of a path that goes through a head nothing goes past it."""
        kept = parts.clone()
        kept[[stream for stream, choice in self.choices() if choice]] = 0.0
        return kept

    def choices(self) -> Iterator[tuple[int, int]]:
        """Stream and choice at the attention that was noted last."""
        last = len(self.heads) - 1
        return ((1 + index, path[last]) for index, path in enumerate(self.paths))


def no_rule_error(what: str) -> InputError:
    return InputError(
        f"there is no rule for {what}, which {calling_line()} uses: this architecture cannot be decomposed."
    )
