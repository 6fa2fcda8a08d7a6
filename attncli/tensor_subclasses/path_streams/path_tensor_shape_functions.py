"""Rules for functions that move numbers: they act on every stream alike, as on the texts of a batch."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.forward_argument_types import Function, Output
from attncli.tensor_subclasses.path_streams.partial_streams import make_missing_rule_error
from attncli.tensor_subclasses.path_streams.path_tensor import (
    PathTensor,
    align_path_streams,
    rule,
)


def apply_to_path_streams(function: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply the function to the numbers, for calls that leave axis 0 where it is."""
    result = function(x.numbers, *args, **kwargs)
    if isinstance(result, Tensor):
        return x.wrap_as_path_streams(result)
    return type(result)(x.wrap_as_path_streams(part) for part in result)


def register_shape_rules(*functions: Function) -> None:
    for function in functions:

        @rule(function)
        def apply_shape_rule(
            x: Tensor, *args: Any, function: Function = function, **kwargs: Any
        ) -> Output:
            return apply_to_path_streams(function, x, *args, **kwargs)


register_shape_rules(
    Tensor.contiguous, Tensor.clone, torch.clone, Tensor.detach, torch.detach, Tensor.view, Tensor.reshape, torch.reshape,
    Tensor.float, Tensor.double, Tensor.to, Tensor.type, Tensor.cpu, Tensor.flatten, torch.flatten,
)  # fmt: skip


@rule(torch.result_type)
def result_type(x: Tensor, y: Tensor) -> torch.dtype:
    sides = (side.numbers if isinstance(side, PathTensor) else side for side in (x, y))
    return torch.result_type(*sides)


@rule(F.dropout, torch.dropout)
def dropout(x: PathTensor, *_: object, **__: object) -> PathTensor:
    """Dropout does nothing: models are in evaluation mode here."""
    return x


@rule(Tensor.type_as, Tensor.view_as, Tensor.reshape_as)
def return_path_streams_unchanged(x: Tensor, y: Tensor) -> Any:
    """Return the same streams: these functions use only the second argument's shape and dtype."""
    other = y.numbers if isinstance(y, PathTensor) else y
    if not isinstance(x, PathTensor):
        return x.to(other.dtype) if x.shape == other.shape else x.reshape(other.shape)
    return x.wrap_as_path_streams(x.numbers.to(other.dtype).reshape(other.shape))


@rule(Tensor.transpose, torch.transpose, Tensor.swapaxes, torch.swapaxes)
def transpose(x: PathTensor, first: int, second: int) -> PathTensor:
    if 0 in (first % x.dim(), second % x.dim()):
        raise make_missing_rule_error("a transposition of the batch")
    return x.wrap_as_path_streams(x.numbers.transpose(first, second))


@rule(Tensor.permute, torch.permute)
def permute(x: PathTensor, *dims: Any) -> PathTensor:
    order = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if order[0] % x.dim() != 0:
        raise make_missing_rule_error("a transposition of the batch")
    return x.wrap_as_path_streams(x.numbers.permute(order))


@rule(Tensor.unflatten, torch.unflatten)
def unflatten(x: PathTensor, dim: int, sizes: Sequence[int]) -> PathTensor:
    return x.wrap_as_path_streams(
        torch.unflatten(x.numbers, refuse_change_of_batch_axis(x.dim(), dim), sizes)
    )


@rule(Tensor.repeat_interleave, torch.repeat_interleave)
def repeat_interleave(x: PathTensor, repeats: int, dim: int | None = None) -> PathTensor:
    """Repeat heads, copying them."""
    if not isinstance(repeats, int) or dim is None:
        raise make_missing_rule_error("a repetition by numbers of their own")
    return x.wrap_as_path_streams(
        x.numbers.repeat_interleave(repeats, refuse_change_of_batch_axis(x.dim(), dim))
    )


@rule(Tensor.unsqueeze, torch.unsqueeze)
def unsqueeze(x: PathTensor, dim: int) -> PathTensor:
    return x.wrap_as_path_streams(
        x.numbers.unsqueeze(refuse_change_of_batch_axis(x.dim() + 1, dim))
    )


@rule(Tensor.squeeze, torch.squeeze)
def squeeze(x: PathTensor, dim: int) -> PathTensor:
    return x.wrap_as_path_streams(x.numbers.squeeze(refuse_change_of_batch_axis(x.dim(), dim)))


def refuse_change_of_batch_axis(axes: int, dim: int) -> int:
    if dim % axes == 0:
        raise make_missing_rule_error("a change of the batch axis")
    return dim


@rule(Tensor.__getitem__)
def getitem(x: PathTensor, index: Any) -> PathTensor:
    """Index with slices that leave the batch whole."""
    indices = index if isinstance(index, tuple) else (index,)
    simple = all(isinstance(part, int | slice) or part in (None, Ellipsis) for part in indices)
    whole = indices[0] is Ellipsis or (isinstance(indices[0], slice) and indices[0] == slice(None))
    if not simple or not whole or (indices[0] is Ellipsis and len(indices) > x.dim()):
        raise make_missing_rule_error("an index into the batch or by a tensor")
    return x.wrap_as_path_streams(x.numbers[index])


@rule(torch.split, Tensor.split)
def split_along_axis(x: PathTensor, size: Any, dim: int = 0) -> tuple[PathTensor, ...]:
    return tuple(
        map(
            x.wrap_as_path_streams,
            torch.split(x.numbers, size, refuse_change_of_batch_axis(x.dim(), dim)),
        )
    )


@rule(Tensor.chunk, torch.chunk)
def chunk(x: PathTensor, chunks: int, dim: int = 0) -> tuple[PathTensor, ...]:
    return tuple(
        map(
            x.wrap_as_path_streams,
            x.numbers.chunk(chunks, refuse_change_of_batch_axis(x.dim(), dim)),
        )
    )


@rule(Tensor.unbind, torch.unbind)
def unbind(x: PathTensor, dim: int = 0) -> tuple[PathTensor, ...]:
    return tuple(
        map(x.wrap_as_path_streams, x.numbers.unbind(refuse_change_of_batch_axis(x.dim(), dim)))
    )


@rule(torch.cat, torch.concat)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> PathTensor:
    parts = require_path_tensors(tensors)
    axis = refuse_change_of_batch_axis(parts[0].dim(), dim)
    return parts[0].wrap_as_path_streams(torch.cat([x.numbers for x in parts], axis))


@rule(torch.stack)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> PathTensor:
    parts = require_path_tensors(tensors)
    axis = refuse_change_of_batch_axis(parts[0].dim() + 1, dim)
    return parts[0].wrap_as_path_streams(torch.stack([x.numbers for x in parts], axis))


def require_path_tensors(tensors: Sequence[Any]) -> list[PathTensor]:
    if not all(isinstance(x, PathTensor) for x in tensors):
        raise make_missing_rule_error("joining a stream with something else")
    return align_path_streams(tensors)
