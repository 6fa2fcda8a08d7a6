"""Propagate tags from a function's arguments to its results."""

import torch

from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.ablation.stream_tracking.operands_of_sums_and_products import (
    SCALE,
    find_binary_operands,
    is_scalar_factor,
    is_vector_over_features,
)
from attncli.ablation.stream_tracking.tensor_tags import (
    Tag,
    attach_stream_tag,
    derive_tag_off_residual_stream,
)
from attncli.capture.attention_calls import (
    LINEAR,
    PRODUCTS,
    UNCHANGED,
    is_attention_function,
    iter_nested_tensors,
    read_tensor_version,
    read_torch_function_name,
    returns_attention_scores,
    unseen,
)
from attncli.forward_argument_types import Args, Function, Kwargs, Output
from attncli.tolerances import UNCHANGED_NUMBERS

PIECES = frozenset(
    {
        "__getitem__", "narrow", "select", "split", "tensor_split", "unbind", "index_select", "roll", "flip", "pad",
        "repeat", "repeat_interleave", "tile",
        "__get__",
    }
)  # fmt: skip
"""Functions whose result contains some of a tensor's numbers, moved; `__get__` is `x.T` and `x.data`."""

JOINS = frozenset({"cat", "concat", "concatenate", "stack"})

LIMITS = frozenset({"clamp", "clamp_", "clip", "clip_"})

ACTIVATIONS = frozenset(
    {
        "elu", "gelu", "glu", "hardswish", "leaky_relu", "mish", "relu", "relu6", "relu_", "sigmoid", "silu", "silu_",
        "softplus", "tanh",
    }
)  # fmt: skip

SHAPED = frozenset({"expand_as", "reshape_as", "to", "type_as", "view_as"})
"""Functions that take only the shape or dtype from their second tensor."""


def run_function_with_tags(run: BlockRun, func: Function, args: Args, kwargs: Kwargs) -> Output:
    """Run the function and tag what it returns and what it changes in place."""
    name = read_torch_function_name(func)
    with unseen():
        inputs = list(iter_nested_tensors((args, kwargs)))
        versions = [read_tensor_version(tensor) for tensor in inputs]
        tags = [
            tag
            for tensor in list_dependency_tensors(name, inputs)
            if (tag := run.find_tag_of_tensor(tensor))
        ]
    result = func(*args, **kwargs)
    if not tags and name not in LINEAR:
        return result
    tag = propagate_stream_tag(run, name, args, kwargs, inputs, tags)
    if (
        len(tags) == 1
        and tags[0].point
        and not tag.point
        and has_changed_no_number(name, result, inputs[0])
    ):
        tag = tags[0]  # tensor subclasses tell so by their own rule
    with unseen():
        known_ids = {id(tensor) for tensor in inputs}
        for tensor in iter_nested_tensors(result):
            if id(tensor) not in known_ids:
                attach_stream_tag(tensor, tag)
        for tensor, version in zip(inputs, versions, strict=True):
            if read_tensor_version(tensor) != version:
                retag_written_tensor(run, tensor, tag)
    return result


def has_changed_no_number(name: str, result: Output, arguments: torch.Tensor) -> bool:
    """Whether a clamp or a mask has left every number unchanged."""
    if (name not in LIMITS and name not in SCALE) or not isinstance(result, torch.Tensor):
        return False
    if result is arguments or result.shape != arguments.shape:
        return False
    return torch.allclose(
        result, arguments, rtol=UNCHANGED_NUMBERS.tolerance_for_dtype(arguments.dtype), atol=0.0
    )


def list_dependency_tensors(name: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors whose numbers a function's result depends on."""
    if name in SHAPED:
        return inputs[:1]
    return [] if name.endswith("_like") or name.startswith("new_") else inputs


def retag_written_tensor(run: BlockRun, tensor: torch.Tensor, tag: Tag) -> None:
    """Retag a written tensor: it and its base now descend from what was written."""
    attach_stream_tag(tensor, tag)
    base = tensor._base
    if base is not None:
        before = run.find_tag_of_tensor(base)
        attach_stream_tag(
            base,
            derive_tag_off_residual_stream([before, tag])
            if before
            else derive_tag_off_residual_stream([tag]),
        )


def propagate_stream_tag(
    run: BlockRun,
    name: str,
    args: Args,
    kwargs: Kwargs,
    inputs: list[torch.Tensor],
    tags: list[Tag],
) -> Tag:
    """The tag of a function's result."""
    if not tags:
        return Tag(run)
    if len(tags) == 1 and is_view_cast_or_scaling(
        name, args, kwargs, run.find_tag_of_tensor(inputs[0]) is not None
    ):
        return tags[0]
    if len(tags) == 1 and tags[0].point and name in SCALE and is_learned_gain(run, args, kwargs):
        return tags[0]._replace(scaled=True)
    if name in JOINS and len(tags) == len(inputs) and all(tag.point for tag in tags):
        return join_residual_stream_tags(tags)
    tag = derive_tag_off_residual_stream(tags)
    if is_attention_function(name, tag.scores):
        tag = tag._replace(attention=tag.attention | {run.assign_attention_call_number()}, depth=0)
    scores = returns_attention_scores(name, len(tags), tag.scores)
    raw = tag.raw and name not in LINEAR and name not in PRODUCTS
    by_weights = name in LINEAR or (name in PRODUCTS and len(tags) == 1)
    depth = count_steps_past_attention(name, by_weights, tag) if tag.attention else 0
    now = scores, raw, depth
    if now == (tag.scores, tag.raw, tag.depth):
        return tag
    return tag._replace(scores=scores, raw=raw, depth=depth)


def join_residual_stream_tags(tags: list[Tag]) -> Tag:
    """The tag of tokens from several points of one stream: the furthest point, if all others lead there."""
    latest = max(tags, key=lambda tag: len(tag.point.points_from_block_input()) if tag.point else 0)
    before = latest.point.points_from_block_input() if latest.point else []
    if all(tag.point in before for tag in tags):
        return latest
    points = dict.fromkeys(tag.point for tag in tags if tag.point)
    return derive_tag_off_residual_stream(tags)._replace(pieces=tuple(points))


def is_learned_gain(run: BlockRun, args: Args, kwargs: Kwargs) -> bool:
    """Whether a product or quotient is the stream with a learned factor for every feature."""
    terms = find_binary_operands(args, kwargs)
    if terms is None or "rounding_mode" in kwargs:
        return False
    stream, gain = terms[:2] if is_on_residual_stream(run, terms.first) else terms[1::-1]
    return is_on_residual_stream(run, stream) and is_vector_over_features(gain, stream)


def is_on_residual_stream(run: BlockRun, value: Output) -> bool:
    return isinstance(value, torch.Tensor) and run.find_tag_of_tensor(value) is not None


def count_steps_past_attention(name: str, by_weights: bool, tag: Tag) -> int:
    """How many steps a branch is past its attention."""
    if by_weights:
        return {0: 1, 2: 3}.get(tag.depth, tag.depth)
    return 2 if tag.depth == 1 and name in ACTIVATIONS else tag.depth


def is_view_cast_or_scaling(name: str, args: Args, kwargs: Kwargs, first: bool) -> bool:
    """Whether a function only changes position, dtype and a scalar factor of a tensor; `first`: of its first one."""
    if name in UNCHANGED or name in PIECES:
        return first
    if name in SCALE and "rounding_mode" not in kwargs:
        terms = find_binary_operands(args, kwargs)
        return (
            terms is not None
            and is_scalar_factor(terms.second if first else terms.first)
            and (first or "mul" in name)
        )
    return False
