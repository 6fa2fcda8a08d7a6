"""The record of one execution of a block: points of its stream, and where its attention calls end."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from attncli.ablation.stream_tracking.source_code_locations import CallSite
from attncli.ablation.stream_tracking.tensor_tags import (
    AdditionSite,
    Key,
    Kind,
    StreamPoint,
    Tag,
    UntouchedResult,
    find_tag_of_block_run,
)
from attncli.capture.model_structure.blocks import BlockCall


class Summand(NamedTuple):
    """A branch that was added: to the stream, or to a branch that attends."""

    place: AdditionSite
    branch: torch.Tensor
    stream: torch.Tensor | None = None


@dataclass(eq=False)
class BlockRun:
    """Records one run of a block; it keeps tensors only on request."""

    stack: str
    call: BlockCall
    values: dict[StreamPoint, torch.Tensor] | None = None
    """The stream at its points, if requested."""
    summands: list[Summand] | None = None
    """The addends of the stream and of merges, if requested."""
    points: dict[tuple[StreamPoint | None, Kind, Key], StreamPoint] = field(default_factory=dict)
    outside: set[int] = field(default_factory=set)
    """Identities of the block's tensor arguments other than its stream."""
    reached: list[set[StreamPoint]] = field(default_factory=list)
    """For each attention call, the skip additions that its result has reached."""
    merges: list[Key] = field(default_factory=list)
    """Additions of an attention branch and an MLP branch, wherever their result goes."""
    strange: list[CallSite] = field(default_factory=list)
    """Additions that involve the stream, pure or mixed, and are no skip."""
    strange_norms: set[Key] = field(default_factory=set)
    """Norms of anything but the stream or a projection of it."""
    scaled: bool = False
    """Whether the stream has a learned gain or shift."""
    gated: list[CallSite] = field(default_factory=list)
    """Where the stream is multiplied by something computed from activations."""
    inseparable: set[StreamPoint] = field(default_factory=set)
    """Additions of an attention branch with an MLP inside it."""
    outputs: tuple[StreamPoint | None, ...] = ()
    """The points of its streams that the block gave back, several where tokens are at several; None for what is not on
    the stream. Mostly one."""

    def record_residual_stream_at_point(self, point: StreamPoint, stream: torch.Tensor) -> None:
        """Record that the stream reached a point."""
        if self.values is not None:
            self.values[point] = stream

    def make_residual_stream_point(
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

    def find_tag_of_tensor(self, tensor: torch.Tensor) -> Tag | None:
        """The tag of a tensor; the block's other tensor arguments count as activations."""
        tag = find_tag_of_block_run(tensor, self)
        return Tag(self) if tag is None and id(tensor) in self.outside else tag

    def assign_attention_call_number(self) -> int:
        """Number a new attention call."""
        self.reached.append(set())
        return len(self.reached) - 1
