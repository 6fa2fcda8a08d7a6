"""Rules for choices: experts for tokens, tokens for experts, top-k.

Tokens that nearly coincide choose alike, and then the choice is one of features, or of all tokens, which applies to both
parts. Where tokens choose differently they differ enough for plain numbers.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.forward_argument_types import Function, Output
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import make_scaled_array
from attncli.tensor_subclasses.residual_split.split_tensor import (
    RULES,
    SplitTensor,
    convert_split_to_plain,
    rule,
)
from attncli.tensor_subclasses.residual_split.split_tensor_shape_functions import getitem
from attncli.tensor_subclasses.torch_function_rules import Operand


class ChosenExperts(NamedTuple):
    """Like torch.topk's result."""

    values: Tensor
    indices: Tensor


@rule(torch.topk, Tensor.topk)
def topk(
    x: SplitTensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ChosenExperts:
    indices = torch.topk(x.to_plain_tensor(), k, dim, largest, sorted).indices
    return ChosenExperts(gather(x, dim, indices), indices)


@rule(torch.max, Tensor.max)
def select_largest(x: SplitTensor, dim: Any = None, keepdim: bool = False) -> Any:
    if not isinstance(dim, int):
        return (
            torch.max(x.to_plain_tensor())
            if dim is None
            else torch.max(x.to_plain_tensor(), convert_split_to_plain(dim))
        )
    indices = torch.max(x.to_plain_tensor(), dim, keepdim=True).indices
    values = gather(x, dim, indices)
    return (
        ChosenExperts(values, indices)
        if keepdim
        else ChosenExperts(values.squeeze(dim), indices.squeeze(dim))
    )


@rule(torch.gather, Tensor.gather)
def gather(x: SplitTensor, dim: int, index: Tensor) -> Tensor:
    """Gather the same features of every token, or plain numbers."""
    dim %= x.dim()
    first = index.narrow(x.axis, 0, 1) if dim != x.axis else index
    if dim == x.axis or index.shape[x.axis] != x.shape[x.axis] or not bool((index == first).all()):
        return torch.gather(x.to_plain_tensor(), dim, index)
    if any(size != x.shape[axis] for axis, size in enumerate(index.shape) if axis != dim):
        return torch.gather(x.to_plain_tensor(), dim, index)
    return SplitTensor(
        x.common.map_linearly(lambda each: np.take_along_axis(each, first.numpy(), dim)),
        x.varying.map_linearly(lambda each: np.take_along_axis(each, index.numpy(), dim)),
        x.axis,
    )


LOOKS = (
    torch.argmax, Tensor.argmax, torch.argsort, Tensor.argsort, torch.isnan, Tensor.isnan, torch.isinf, Tensor.isinf,
    torch.isfinite, Tensor.isfinite, Tensor.__gt__, Tensor.__lt__, Tensor.__ge__, Tensor.__le__, Tensor.gt, Tensor.lt,
    Tensor.bool, Tensor.long, Tensor.int, torch.masked_fill, Tensor.masked_fill, torch.view_as_complex,
)  # fmt: skip
"""Functions whose results are no stream: comparisons, choices, and rotations, which differ between tokens."""


def apply_to_unsplit_tensors(function: Function, *args: Any, **kwargs: Any) -> Output:
    """Apply the function to plain numbers."""
    plain_kwargs = {name: convert_split_to_plain(value) for name, value in kwargs.items()}
    return function(*map(convert_split_to_plain, args), **plain_kwargs)


for look in LOOKS:
    RULES[look] = partial(apply_to_unsplit_tensors, look)


@rule(torch.index_select, Tensor.index_select)
def index_select(x: SplitTensor, dim: int, index: Tensor) -> Tensor:
    return getitem(x, (*[slice(None)] * (dim % x.dim()), index))


@rule(torch.zeros_like)
def zeros_like(
    x: SplitTensor, *_: object, dtype: torch.dtype | None = None, **__: object
) -> Tensor:
    """A split zero to which parts of a stream are added; a plain one for other dtypes."""
    if dtype is not None and not dtype.is_floating_point:
        return torch.zeros(x.shape, dtype=dtype)
    shape = [1 if axis == x.axis else size for axis, size in enumerate(x.shape)]
    return SplitTensor(
        make_scaled_array(np.zeros(shape)), make_scaled_array(np.zeros(tuple(x.shape))), x.axis
    )


def create_float64_tensor(function: Function, _: SplitTensor, *args: Any, **kwargs: Any) -> Tensor:
    """Plain numbers to write to, of the stream's dtype."""
    made: Tensor = function(torch.zeros((), dtype=torch.float64), *args, **kwargs)
    return made


MAKERS: tuple[Any, ...] = (Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full)

for maker in MAKERS:
    RULES[maker] = partial(create_float64_tensor, maker)


@rule(Tensor.index_add_)
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Add an expert's results to its tokens: as a split tensor if to all of them, else as plain numbers."""
    if not isinstance(x, SplitTensor):
        return x.index_add_(dim, index, convert_split_to_plain(source), alpha=alpha)
    every = torch.equal(index, torch.arange(x.shape[x.axis])) and dim % x.dim() == x.axis
    if isinstance(source, SplitTensor) and every:
        return x.overwrite_with_result(torch.add(x, source, alpha=alpha), "index_add_")
    part = torch.zeros(x.shape, dtype=torch.float64).index_add_(
        dim, index, convert_split_to_plain(source), alpha=alpha
    )
    return x.overwrite_with_result(torch.add(x, part), "index_add_")


@rule(Tensor.scatter_)
def scatter(x: Tensor, dim: int, index: Tensor, source: Operand, **how: Any) -> Tensor:
    """Scatter numbers into a stream; a constant written to the same features of every token is common to them."""
    made = (
        convert_split_to_plain(x)
        .clone()
        .scatter_(dim, index, convert_split_to_plain(source), **how)
    )
    if not isinstance(x, SplitTensor):
        return x.copy_(made)
    if not isinstance(source, Tensor) and x.common.is_zero() and x.varying.is_zero():
        row = made.narrow(x.axis, 0, 1)
        made = row if bool((made == row).all()) else made
    return x.overwrite_with_result(torch.add(zeros_like(x), made), "scatter_")


@rule(Tensor.__setitem__)
def setitem(x: Tensor, index: Any, source: Operand) -> None:
    """Set items; a stream that is written into plain numbers becomes plain."""
    if not isinstance(x, SplitTensor):
        x[index] = convert_split_to_plain(source)
        return
    made = x.to_plain_tensor().clone()
    made[index] = convert_split_to_plain(source)
    x.overwrite_with_result(torch.add(zeros_like(x), made), "an assignment to parts")
