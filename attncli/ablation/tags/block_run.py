"""One execution of one block: the points of its stream, and what became of its attention calls."""

from typing import NamedTuple

import torch

from attncli.ablation.tags.call_sites import CallSite
from attncli.ablation.tags.tags import (
    AdditionSite,
    Key,
    Kind,
    StreamPoint,
    Tag,
    UntouchedResult,
    tag_of,
)
from attncli.capture.stacks.blocks import BlockCall


class Summand(NamedTuple):
    """A branch that was added: to the stream, or to a branch that attends."""

    place: AdditionSite
    branch: torch.Tensor
    stream: torch.Tensor | None = None


class BlockRun:
    """What is seen while a block runs once; it holds no tensor unless it is asked to."""

    def __init__(self, stack: str, call: BlockCall) -> None:
        self.stack = stack
        self.call = call
        self.points: dict[tuple[StreamPoint | None, Kind, Key], StreamPoint] = {}
        self.outside: set[int] = set()
        """Identities of the tensors that the block was given beside its stream."""
        self.reached: list[set[StreamPoint]] = []
        """For each attention call the skip additions that its result has reached."""
        self.merges: list[Key] = []
        """Additions of an attention branch and an MLP branch, wherever they lead."""
        self.strange: list[CallSite] = []
        """Additions that the stream enters, as it is or mixed with something, and that are no skip."""
        self.strange_norms: set[Key] = set()
        """Norms of what is neither the stream nor a projection of it."""
        self.scaled = False
        """The stream has a learned gain or shift."""
        self.gated: list[CallSite] = []
        """Where the stream is multiplied by what is computed from activations."""
        self.inseparable: set[StreamPoint] = set()
        """Additions of an attention branch that has an MLP within it."""
        self.outputs: tuple[StreamPoint | None, ...] = ()
        """The points of its streams that the block gave back, several where tokens are at several; None for what is not on
        the stream. Mostly one."""

        self.values: dict[StreamPoint, torch.Tensor] | None = None
        """The stream at its points, where somebody wants to look inside the block."""

        self.summands: list[Summand] | None = None
        """What was added to the stream and merged, where somebody wants to look at it."""

    def arrived(self, point: StreamPoint, stream: torch.Tensor) -> None:
        """The stream has come to a point."""
        if self.values is not None:
            self.values[point] = stream

    def point(
        self,
        kind: Kind,
        parent: StreamPoint | None = None,
        key: Key = "",
        bare: tuple[UntouchedResult, ...] = (),
        pre_normed: bool = False,
    ) -> StreamPoint:
        """The point made from this parent at this place: the same one however often it is reached."""
        made = StreamPoint(kind, parent, key, bare, pre_normed)
        return self.points.setdefault((parent, kind, key), made)

    def tag(self, tensor: torch.Tensor) -> Tag | None:
        """What is known of a tensor; what the block was given beside its stream is an activation."""
        tag = tag_of(tensor, self)
        return Tag(self) if tag is None and id(tensor) in self.outside else tag

    def attention_call(self) -> int:
        """A number for an attention call that now happens."""
        self.reached.append(set())
        return len(self.reached) - 1
