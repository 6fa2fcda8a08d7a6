"""Rules for choosing: experts for tokens, tokens for experts, the best of some numbers.

Tokens that are nearly one choose alike, and then the choice is one of features, or of all tokens, that both parts take
part in. Where tokens choose differently they are far apart, and plain numbers tell them.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.maths.residuals.scaled import make_scaled
from attncli.tensor_subclasses.residual_split.split_shapes import getitem
from attncli.tensor_subclasses.residual_split.split_tensor import RULES, SplitTensor, rule, to_plain


class ChosenExperts(NamedTuple):
    """Like what torch returns."""

    values: Tensor
    indices: Tensor


@rule(torch.topk, Tensor.topk)
def topk(
    x: SplitTensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ChosenExperts:
    indices = torch.topk(x.plain(), k, dim, largest, sorted).indices
    return ChosenExperts(gather(x, dim, indices), indices)


@rule(torch.max, Tensor.max)
def largest(x: SplitTensor, dim: Any = None, keepdim: bool = False) -> Any:
    if not isinstance(dim, int):
        return torch.max(x.plain()) if dim is None else torch.max(x.plain(), to_plain(dim))
    indices = torch.max(x.plain(), dim, keepdim=True).indices
    values = gather(x, dim, indices)
    return (
        ChosenExperts(values, indices)
        if keepdim
        else ChosenExperts(values.squeeze(dim), indices.squeeze(dim))
    )


@rule(torch.gather, Tensor.gather)
def gather(x: SplitTensor, dim: int, index: Tensor) -> Tensor:
    """The same features of every token, or plain numbers."""
    dim %= x.dim()
    first = index.narrow(x.axis, 0, 1) if dim != x.axis else index
    if dim == x.axis or index.shape[x.axis] != x.shape[x.axis] or not bool((index == first).all()):
        return torch.gather(x.plain(), dim, index)
    if any(size != x.shape[axis] for axis, size in enumerate(index.shape) if axis != dim):
        return torch.gather(x.plain(), dim, index)
    return SplitTensor(
        make_scaled(np.take_along_axis(x.common.mantissa, first.numpy(), dim), x.common.exponent),
        make_scaled(np.take_along_axis(x.varying.mantissa, index.numpy(), dim), x.varying.exponent),
        x.axis,
    )


LOOKS = (
    torch.argmax, Tensor.argmax, torch.argsort, Tensor.argsort, torch.isnan, Tensor.isnan, torch.isinf, Tensor.isinf,
    torch.isfinite, Tensor.isfinite, Tensor.__gt__, Tensor.__lt__, Tensor.__ge__, Tensor.__le__, Tensor.gt, Tensor.lt,
    Tensor.bool, Tensor.long, Tensor.int, torch.masked_fill, Tensor.masked_fill, torch.view_as_complex,
)  # fmt: skip
"""Functions whose results are no stream: comparisons, choices, and rotations, which differ from token to token."""


def apply_to_plain(function: Any, *args: Any, **kwargs: Any) -> Any:
    """On plain numbers."""
    given = {name: to_plain(value) for name, value in kwargs.items()}
    return function(*map(to_plain, args), **given)


for look in LOOKS:
    RULES[look] = partial(apply_to_plain, look)


@rule(torch.index_select, Tensor.index_select)
def index_select(x: SplitTensor, dim: int, index: Tensor) -> Tensor:
    return getitem(x, (*[slice(None)] * (dim % x.dim()), index))


@rule(torch.zeros_like)
def zeros_like(x: SplitTensor, *_: Any, dtype: Any = None, **__: Any) -> Tensor:
    """Something to add parts of a stream to; of another kind than floating numbers, plain."""
    if dtype is not None and not dtype.is_floating_point:
        return torch.zeros(x.shape, dtype=dtype)
    shape = [1 if axis == x.axis else size for axis, size in enumerate(x.shape)]
    return SplitTensor(make_scaled(np.zeros(shape)), make_scaled(np.zeros(tuple(x.shape))), x.axis)


def new_plain(function: Any, _: SplitTensor, *args: Any, **kwargs: Any) -> Tensor:
    """Plain numbers to write to, of the stream's type."""
    made: Tensor = function(torch.zeros((), dtype=torch.float64), *args, **kwargs)
    return made


MAKERS: tuple[Any, ...] = (Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full)

for maker in MAKERS:
    RULES[maker] = partial(new_plain, maker)


@rule(Tensor.index_add_)
def index_add(x: Any, dim: int, index: Tensor, source: Any, *, alpha: float = 1.0) -> Any:
    """An expert's results to its tokens: to all of them, or else as plain numbers."""
    if not isinstance(x, SplitTensor):
        return x.index_add_(dim, index, to_plain(source), alpha=alpha)
    every = torch.equal(index, torch.arange(x.shape[x.axis])) and dim % x.dim() == x.axis
    if isinstance(source, SplitTensor) and every:
        return x.become(torch.add(x, source, alpha=alpha), "index_add_")
    part = torch.zeros(x.shape, dtype=torch.float64).index_add_(
        dim, index, to_plain(source), alpha=alpha
    )
    return x.become(torch.add(x, part), "index_add_")


@rule(Tensor.scatter_)
def scatter(x: Any, dim: int, index: Tensor, source: Any, **how: Any) -> Any:
    """Numbers into a stream; a constant that comes to the same places of every token is common to them."""
    made = to_plain(x).clone().scatter_(dim, index, to_plain(source), **how)
    if not isinstance(x, SplitTensor):
        return x.copy_(made)
    if not isinstance(source, Tensor) and x.common.is_zero() and x.varying.is_zero():
        row = made.narrow(x.axis, 0, 1)
        made = row if bool((made == row).all()) else made
    return x.become(torch.add(zeros_like(x), made), "scatter_")


@rule(Tensor.__setitem__)
def setitem(x: Any, index: Any, source: Any) -> None:
    """Likewise; a stream that is written into plain numbers is plain there."""
    if not isinstance(x, SplitTensor):
        x[index] = to_plain(source)
        return
    made = x.plain().clone()
    made[index] = to_plain(source)
    x.become(torch.add(zeros_like(x), made), "an assignment to parts")
