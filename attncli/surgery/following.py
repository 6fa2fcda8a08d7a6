"""How tags pass from a function's arguments to its results."""

from collections.abc import Mapping
from typing import Any

import torch

from attncli.surgery.block_run import BlockRun
from attncli.surgery.sides import SCALE, is_number, terms_of
from attncli.surgery.tags import Tag, attach, derived
from attncli.watching.attention_calls import (
    LINEAR,
    PRODUCTS,
    UNCHANGED,
    has_scores,
    is_attention,
    name_of,
    tensors_in,
    version_of,
)

PIECES = frozenset(
    {
        "__getitem__", "narrow", "select", "split", "tensor_split", "unbind", "index_select", "roll", "flip", "pad",
        "__get__",
    }
)  # fmt: skip
"""Functions whose result holds some of a tensor's numbers, elsewhere; `__get__` is `x.T` and `x.data`."""

JOINS = frozenset({"cat", "concat", "concatenate", "stack"})

SHAPED = frozenset({"expand_as", "reshape_as", "to", "type_as", "view_as"})
"""Functions that take from their second tensor its shape or type only."""


def followed(run: BlockRun, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run the function and tag what it returns and what it changes in place."""
    name = name_of(func)
    inputs = list(tensors_in((args, kwargs)))
    versions = [version_of(tensor) for tensor in inputs]
    tags = [tag for tensor in sources(name, inputs) if (tag := run.tag(tensor))]
    result = func(*args, **kwargs)
    if tags or name in LINEAR:
        tag = passed_on(run, name, args, kwargs, inputs, tags)
        given = {id(tensor) for tensor in inputs}
        for tensor in tensors_in(result):
            if id(tensor) not in given:
                attach(tensor, tag)
        for tensor, version in zip(inputs, versions, strict=True):
            if version_of(tensor) != version:
                changed(run, tensor, tag)
    return result


def sources(name: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors whose numbers a function's result depends on."""
    if name in SHAPED:
        return inputs[:1]
    return [] if name.endswith("_like") or name.startswith("new_") else inputs


def changed(run: BlockRun, tensor: torch.Tensor, tag: Tag) -> None:
    """A tensor was written to: it and what it is a view of now descend from what was written."""
    attach(tensor, tag)
    base = tensor._base
    if base is not None:
        before = run.tag(base)
        attach(base, derived([before, tag]) if before else derived([tag]))


def passed_on(
    run: BlockRun,
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    inputs: list[torch.Tensor],
    tags: list[Tag],
) -> Tag:
    """The tag of a function's result."""
    if not tags:
        return Tag(run)
    if len(tags) == 1 and leaves(name, args, kwargs, run.tag(inputs[0]) is not None):
        return tags[0]
    point = tags[0].point
    if (
        name in JOINS
        and point
        and all(tag.point is point for tag in tags)
        and len(tags) == len(inputs)
    ):
        return tags[0]
    tag = derived(tags)
    if is_attention(name, tag.scores):
        tag = tag._replace(attention=tag.attention | {run.attention_call()})
    scores = has_scores(name, len(tags), tag.scores)
    raw = tag.raw and name not in LINEAR and name not in PRODUCTS
    return tag._replace(scores=scores, raw=raw) if (scores, raw) != (tag.scores, tag.raw) else tag


def leaves(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], first: bool) -> bool:
    """Whether a function leaves a tensor what it is, up to place, type and a scalar factor; `first`: it is the first."""
    if name in UNCHANGED or name in PIECES:
        return first
    if name in SCALE and "rounding_mode" not in kwargs:
        terms = terms_of(args, kwargs)
        return (
            terms is not None
            and is_number(terms.second if first else terms.first)
            and (first or "mul" in name)
        )
    return False
