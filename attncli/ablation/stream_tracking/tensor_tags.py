"""Tags: what is known of a tensor while a block runs, stored on the tensor itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch

from attncli.ablation.stream_tracking.source_code_locations import CallSite
from attncli.capture.attention_calls import read_tensor_version, unseen

Kind = Literal["input", "attention", "mixer", "mlp", "parallel", "beside", "norm"]
"""How a point of the stream came about: the block's input, a skip addition of an attention branch, of a branch that mixes
tokens otherwise, of an MLP branch, of attention and MLP merged, of an MLP branch that runs beside the attention just added,
or a norm."""

Key = CallSite | str
"""A norm's key: the name of its module, or where its function is called."""


class UntouchedResult(NamedTuple):
    """A result that only views, casts and scalar factors have touched since."""

    kind: Literal["merge", "norm"]
    key: Key


class AdditionSite(NamedTuple):
    """An addition of one run of a block: where in the code it is, and how many points of the stream come before it; none
    where two branches are added to each other."""

    key: Key
    before: int = 0


MLP_DEPTH = 3
"""Steps from attention to the end of an MLP in the same branch: product, activation, product."""


@dataclass(eq=False, slots=True)
class StreamPoint:
    """A point of the stream. The pieces of a chunked feed-forward share one: same parent, same site."""

    kind: Kind
    parent: "StreamPoint | None" = None
    key: Key = ""
    bare: tuple[UntouchedResult, ...] = ()
    """Merges and norms whose result was added here directly."""
    pre_normed: bool = False
    """Whether the addend here began with a norm of the stream that it was added to."""

    @property
    def addition_site(self) -> AdditionSite:
        """The key that identifies it among the additions of its block."""
        return AdditionSite(
            self.key, 0 if self.parent is None else len(self.parent.points_from_block_input())
        )

    def points_from_block_input(self) -> list["StreamPoint"]:
        """The points from the block's input to this one."""
        points = [self]
        while points[-1].parent is not None:
            points.append(points[-1].parent)
        return points[::-1]


class Tag(NamedTuple):
    """A tensor's ancestors within one run of a block; any tag marks the tensor as an activation."""

    run: object
    point: StreamPoint | None = None
    """Set if the tensor is the stream at this point, up to its shape, type and a scalar factor."""
    ancestors: frozenset[StreamPoint] = frozenset()
    """Points of the stream from which it is computed, its own included."""
    attention: frozenset[int] = frozenset()
    """Attention calls among its ancestors, since it left the stream."""
    scores: bool = False
    """Whether it descends from a product of two activations, with no attention or product with weights since."""
    raw: bool = False
    """Whether the stream is among its ancestors with no product with weights in between."""
    bare: tuple[UntouchedResult, ...] = ()
    scaled: bool = False
    """Whether it is the stream times a learned gain, or with a learned shift."""
    pieces: tuple[StreamPoint, ...] = ()
    """Set if some of its tokens are the stream at one of these points and others at others, none of which leads to the
    rest."""
    depth: int = 0
    """Steps since its attention: 1 is a product with weights, 2 then an activation, 3 another product."""

    def descends_from_norm_layer(self, point: StreamPoint) -> bool:
        """Whether it descends from a norm of the stream at this point."""
        return any(one.kind == "norm" and one.parent is point for one in self.ancestors)

    def move_tag_to_residual_stream_point(self, point: StreamPoint) -> "Tag":
        """The tag of the stream at a new point."""
        return Tag(self.run, point, self.ancestors | {point}, raw=True)


def attach_stream_tag(tensor: torch.Tensor, tag: Tag) -> None:
    """Attach a tag to the tensor as it is now."""
    tensor._attn_tag = (tag, read_tensor_version(tensor))  # type: ignore[attr-defined]


def find_tag_of_block_run(tensor: torch.Tensor, run: object) -> Tag | None:
    """The tag of this run; None for weights, constants and whatever no tag has reached.

    A tensor that was changed in place under another name also descends from what was written there, which the tag of
    its base knows; it is no longer known to be the stream.
    """
    tag, version = getattr(tensor, "_attn_tag", (None, None))
    if tag is not None and tag.run is not run:
        return Tag(run)
    if tag is not None and version == read_tensor_version(tensor):
        current: Tag = tag
        return current
    with unseen():
        base = tensor._base
    written = None if base is None else find_tag_of_block_run(base, run)
    known = [one for one in (tag, written) if one is not None]
    return derive_tag_off_residual_stream(known) if known else None


def derive_tag_off_residual_stream(tags: list[Tag]) -> Tag:
    """The tag of what is computed from tensors with these tags: off the stream."""
    first = tags[0]
    if len(tags) == 1 and first.point is None and not first.bare and not first.pieces:
        return first
    return Tag(
        first.run,
        None,
        union_sets(tag.ancestors for tag in tags),
        union_sets(tag.attention for tag in tags),
        any(tag.scores for tag in tags),
        any(tag.raw for tag in tags),
        depth=max(tag.depth for tag in tags),
    )


def union_sets(sets: Iterable[frozenset[Any]]) -> frozenset[Any]:
    """The union; the very same set where one contains all, as mostly."""
    result: frozenset[Any] = frozenset()
    for members in sets:
        if not members <= result:
            result = members if result <= members else result | members
    return result
