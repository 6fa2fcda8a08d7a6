"""Rules for functions that move numbers and change none: both parts move alike.

A function that would mix tokens, or pick some of them, gets plain numbers instead; nothing is exact about those, so
only what feeds the logits of position-dependent attention may use them.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    ScaledArray,
    align_scaled_to_exponent,
    find_common_exponent,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitNumbers,
    SplitTensor,
    centre_split_parts,
    centre_varying_part,
    convert_split_to_plain,
    make_lazy_split_tensor,
    map_split_parts_linearly,
    rule,
)


@rule(Tensor.view_as, Tensor.detach, torch.detach)
def alias_split_tensor(x: SplitTensor, *_: object, **__: object) -> SplitTensor:
    """A separate tensor of the same numbers: a property of one need not hold for the other."""
    return SplitTensor.from_numbers(x.numbers, x.axis, x.shape)


@rule(Tensor.clone, torch.clone)
def copy_split_tensor(x: SplitTensor, *_: object, **__: object) -> SplitTensor:
    return SplitTensor.from_numbers(SplitNumbers(x.numbers.parts, None), x.axis, x.shape)


@rule(torch.result_type)
def result_type(*_: object) -> torch.dtype:
    return torch.float64


@rule(Tensor.expand)
def expand(x: SplitTensor, *sizes: int) -> SplitTensor:
    """Repeat heads for the queries that share them; a single token could not keep a residual."""
    sizes_tuple = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    before = len(sizes_tuple) - x.dim()
    if before < 0 or sizes_tuple[before + x.axis] not in (-1, x.shape[x.axis]):
        raise SplitTensor.make_unsupported_function_error("a repetition of tokens")
    shape = [
        x.shape[index - before] if size == -1 and index >= before else size
        for index, size in enumerate(sizes_tuple)
    ]
    single = [1 if index == before + x.axis else size for index, size in enumerate(shape)]
    return SplitTensor(
        x.common.apply_layout_change(partial(np.broadcast_to, shape=single)),
        x.varying.apply_layout_change(partial(np.broadcast_to, shape=shape)),
        before + x.axis,
        view_of=x,
    )


@rule(Tensor.expand_as)
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    return x.expand(*other.shape)


@rule(Tensor.repeat_interleave, torch.repeat_interleave)
def repeat_interleave(x: SplitTensor, repeats: int, dim: int | None = None) -> SplitTensor:
    """Repeat heads, copying them."""
    if not isinstance(repeats, int) or dim is None or dim % x.dim() == x.axis:
        raise SplitTensor.make_unsupported_function_error("a repetition of tokens")
    return map_split_parts_linearly(x, partial(np.repeat, repeats=repeats, axis=dim), x.axis)


@rule(
    Tensor.contiguous,
    Tensor.to,
    Tensor.float,
    Tensor.double,
    Tensor.type_as,
    Tensor.type,
    Tensor.cpu,
    F.dropout,
    torch.dropout,
)
def return_tensor_unchanged(x: Tensor, *_: object, **__: object) -> Tensor:
    """Return it unchanged, also from casts: everything is float64 here, and dropout is off."""
    return x


@rule(Tensor.view, Tensor.reshape, torch.reshape)
def reshape(x: SplitTensor, *shape: Any) -> Tensor:
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        return x
    sizes_tuple = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    sizes = list(np.empty(x.shape, dtype=np.bool_).reshape(sizes_tuple).shape)
    if is_relative_position_shift(x, sizes):
        return x.to_plain_tensor().reshape(sizes)
    return reshape_split_tensor(x, sizes)


def is_relative_position_shift(x: SplitTensor, sizes: Sequence[int]) -> bool:
    """Whether a reshape exchanges queries and keys without a transpose, as relative positions shift scores."""
    *lead, rows, columns = x.shape
    return x.axis == len(lead) and list(sizes) == [*lead, columns, rows] and rows != columns


@rule(Tensor.reshape_as)
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    return torch.reshape(x, other.shape)


def reshape_split_tensor(x: SplitTensor, sizes: Sequence[int]) -> SplitTensor:
    """Reshape; the token axis must keep its strides: as many numbers before it, as many in it."""
    tokens, before = x.shape[x.axis], math.prod(x.shape[: x.axis])
    places = [
        axis
        for axis, size in enumerate(sizes)
        if size == tokens and math.prod(sizes[:axis]) == before
    ]
    if not places:
        raise SplitTensor.make_unsupported_function_error(
            f"a change of shape from {tuple(x.shape)} to {tuple(sizes)}"
        )
    axis = places[-1]
    single = [1 if index == axis else size for index, size in enumerate(sizes)]

    def reshape_split_parts(parts: SplitParts) -> SplitParts:
        common, varying = parts
        return SplitParts(
            common.apply_layout_change(lambda each: each.reshape(single)),
            varying.apply_layout_change(lambda each: each.reshape(sizes)),
        )

    return make_lazy_split_tensor(reshape_split_parts, sizes, axis, x, view=True)


@rule(Tensor.flatten, torch.flatten)
def flatten(x: SplitTensor, start_dim: int = 0, end_dim: int = -1) -> SplitTensor:
    start, end = start_dim % x.dim(), end_dim % x.dim()
    sizes = [*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]]
    return reshape_split_tensor(x, sizes)


@rule(Tensor.unflatten, torch.unflatten)
def unflatten(x: SplitTensor, dim: int, sizes: Sequence[int]) -> Tensor:
    dim %= x.dim()
    return reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


@rule(Tensor.transpose, torch.transpose, Tensor.swapaxes, torch.swapaxes)
def transpose(x: SplitTensor, first: int, second: int) -> SplitTensor:
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    return permute(x, order)


@rule(Tensor.permute, torch.permute)
def permute(x: SplitTensor, *dims: Any) -> SplitTensor:
    axes = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [dim % x.dim() for dim in axes]
    common, varying = (
        part.apply_layout_change(lambda each: each.transpose(order))
        for part in (x.common, x.varying)
    )
    return SplitTensor(common, varying, order.index(x.axis), view_of=x)


@rule(Tensor.unsqueeze, torch.unsqueeze)
def unsqueeze(x: SplitTensor, dim: int) -> SplitTensor:
    dim %= x.dim() + 1
    return reshape_split_tensor(x, [*x.shape[:dim], 1, *x.shape[dim:]])


@rule(Tensor.squeeze, torch.squeeze)
def squeeze(x: SplitTensor, dim: int) -> SplitTensor:
    dim %= x.dim()
    return (
        reshape_split_tensor(x, [*x.shape[:dim], *x.shape[dim + 1 :]]) if x.shape[dim] == 1 else x
    )


@rule(Tensor.__getitem__)
def getitem(x: SplitTensor, index: Any) -> Tensor:
    """Index slices of features; indexing tokens gives plain numbers."""
    indices = tuple(
        map(convert_token_index_to_slice(x), index if isinstance(index, tuple) else (index,))
    )
    if not all(isinstance(part, (int, slice)) or part in (None, Ellipsis) for part in indices):
        return x.to_plain_tensor()[index]
    probe = np.empty(x.shape, dtype=np.bool_)[indices]
    strides = np.arange(x.shape[x.axis]).reshape(
        [-1 if axis == x.axis else 1 for axis in range(x.dim())]
    )
    tokens = np.broadcast_to(strides, x.shape)[indices]
    axis = find_token_axis(tokens, x.shape[x.axis])
    if axis is None or probe.size == 0:
        return x.to_plain_tensor()[index]
    single = [slice(None)] * x.dim()
    single[x.axis] = slice(0, 1)
    whole = np.broadcast_to(x.common.mantissa, x.shape)[indices]
    common = np.take(whole, [0], axis=axis)
    return SplitTensor(
        make_scaled_array(common, x.common.exponent),
        x.varying.map_linearly(lambda each: each[indices]),
        axis,
        view_of=x,
    )


def convert_token_index_to_slice(x: SplitTensor) -> Callable[[Any], Any]:
    """Turn an index of numbers into a slice, if it lists all tokens in order, or one position repeatedly."""

    def simplify_token_index(part: Any) -> Any:
        if (
            not isinstance(part, Tensor)
            or part.dtype == torch.bool
            or part.shape != x.shape[x.axis : x.axis + 1]
        ):
            return part
        if torch.equal(part, torch.arange(len(part))):
            return slice(None)
        return int(part[0]) if bool((part == part[0]).all()) else part

    return simplify_token_index


def find_token_axis(tokens: Any, count: int) -> int | None:
    """Find the axis along which an array of token indices lists all of them."""
    for axis in range(tokens.ndim):
        if tokens.shape[axis] == count and count > 1:
            line = np.moveaxis(tokens, axis, -1)
            if (line == np.arange(count)).all():
                return axis
    return None


@rule(torch.split, Tensor.split)
def split_along_axis(x: SplitTensor, size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    width = x.shape[dim]
    sizes = [size] * math.ceil(width / size) if isinstance(size, int) else list(size)
    edges = np.concatenate([[0], np.cumsum(sizes)]).clip(max=width)
    lead = [slice(None)] * (dim % x.dim())
    return tuple(
        getitem(x, (*lead, slice(int(first), int(last))))
        for first, last in itertools.pairwise(edges)
    )


@rule(Tensor.chunk, torch.chunk)
def chunk(x: SplitTensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    return split_along_axis(x, math.ceil(x.shape[dim] / chunks), dim)


@rule(Tensor.unbind, torch.unbind)
def unbind(x: SplitTensor, dim: int = 0) -> tuple[Tensor, ...]:
    lead = [slice(None)] * (dim % x.dim())
    return tuple(getitem(x, (*lead, index)) for index in range(x.shape[dim]))


@rule(torch.cat, torch.concat)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Concatenate features or tokens; with plain features, the result is plain."""
    tensors = [x for x in tensors if x.numel()]  # an empty cache
    split = [x for x in tensors if isinstance(x, SplitTensor)]
    dim %= split[0].dim()
    if any(x.axis != split[0].axis for x in split):
        raise SplitTensor.make_unsupported_function_error("cat along features and tokens at once")
    if split[0].axis == dim:
        return concatenate_tokens(tensors, dim)
    if len(split) < len(tensors):
        return torch.cat([convert_split_to_plain(x) for x in tensors], dim)
    common, varying = (
        concatenate_scaled_arrays(side, dim)
        for side in ([x.common for x in split], [x.varying for x in split])
    )
    return SplitTensor(common, varying, axis=split[0].axis)


def concatenate_tokens(tensors: Sequence[Tensor], axis: int) -> SplitTensor:
    """Concatenate tokens: c of the first split tensor is the common row, and the others' deviations join V."""
    first = next(x.common for x in tensors if isinstance(x, SplitTensor))
    pieces = []
    for x in tensors:
        if isinstance(x, SplitTensor):
            pieces.append(x.varying + (x.common - first))
        else:
            pieces.append(make_scaled_array(x.to(torch.float64).numpy()) - first)
    return centre_varying_part(first, concatenate_scaled_arrays(pieces, axis), axis)


@rule(torch.stack)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Stack, as `cat` with one more axis."""
    dim %= tensors[0].dim() + 1
    return torch.cat([torch.unsqueeze(x, dim) for x in tensors], dim)


def concatenate_scaled_arrays(parts: Sequence[ScaledArray], dim: int) -> ScaledArray:
    top = find_common_exponent(*parts)
    return make_scaled_array(
        np.concatenate([align_scaled_to_exponent(part, top) for part in parts], axis=dim), top
    )


ELEMENTS = 1 << 16
"""Numbers that are worked on at once, so that they stay in the cache."""

FEWEST_TOKENS = 8
"""Tokens that are worked on at once at least: what concerns their common row is found anew each time."""


def iter_token_slices(shape: Sequence[int], axis: int) -> Iterator[tuple[slice, ...]]:
    """Iterate over slices of tokens with about `ELEMENTS` numbers."""
    tokens = shape[axis]
    step = max(FEWEST_TOKENS, ELEMENTS * tokens // max(1, math.prod(shape)))
    for start in range(0, tokens, step):
        yield (*[slice(None)] * axis, slice(start, start + step))


def apply_to_token_slices(
    function: Callable[..., SplitParts], axis: int, *operands: SplitParts
) -> SplitParts:
    """A function of every number by itself, some tokens at a time; centred."""
    shape = np.broadcast_shapes(*(each.varying.mantissa.shape for each in operands))
    found: list[SplitParts] = [
        function(*(slice_tokens_of_parts(each, tokens) for each in operands))
        for tokens in iter_token_slices(shape, axis)
    ]
    varying = [each.varying for each in found]
    return centre_split_parts(found[0].common, concatenate_scaled_arrays(varying, axis), axis)


def slice_tokens_of_parts(parts: SplitParts, tokens: tuple[slice, ...]) -> SplitParts:
    if parts.varying.mantissa.shape[len(tokens) - 1] == 1:
        return parts
    return SplitParts(parts.common, parts.varying.map_linearly(lambda each: each[tokens]))
