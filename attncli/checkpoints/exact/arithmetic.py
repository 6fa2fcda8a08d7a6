"""Rules for sums, products and linear layers."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.checkpoints.exact.tensor import SplitTensor, centred, rule
from attncli.errors import InputError
from attncli.maths.scaled import Array, plus, product, scaled, times


@rule(F.linear)
def linear(x: Any, weight: Tensor, bias: Tensor | None = None) -> SplitTensor:
    return affine(x, numbers(weight).T, bias)


@rule(torch.addmm, Tensor.addmm)
def addmm(bias: Tensor, x: Any, weight: Tensor) -> SplitTensor:
    """GPT-2's Conv1D."""
    return affine(x, numbers(weight), bias)


@rule(torch.matmul, Tensor.matmul, Tensor.__matmul__)
def matmul(x: Any, weight: Any) -> SplitTensor:
    if not isinstance(x, SplitTensor) or isinstance(weight, SplitTensor) or weight.dim() != 2:
        raise InputError(
            "--exact knows products of the stream with weights alone: leave --exact out."
        )
    return affine(x, numbers(weight), None)


def affine(x: SplitTensor, weight: Array, bias: Tensor | None) -> SplitTensor:
    """c W + b and V W: V meets neither c nor b."""
    if isinstance(x, SplitTensor) and x.axis == x.dim() - 1:
        raise InputError("--exact cannot mix tokens by a linear layer: leave --exact out.")
    common, varying = (
        scaled(part.mantissa @ weight, part.exponent) for part in (x.common, x.varying)
    )
    if bias is not None:
        common = plus(common, scaled(np.broadcast_to(numbers(bias), common.mantissa.shape)))
    return SplitTensor(common, varying, x.axis)


@rule(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__)
def add(x: Any, y: Any, *, alpha: float = 1.0) -> SplitTensor:
    """Common parts add, varying parts add; what differs from token to token joins the varying part."""
    if alpha != 1.0:
        y = multiply(y, alpha) if isinstance(y, SplitTensor) else y * alpha
    if isinstance(x, SplitTensor) and isinstance(y, SplitTensor):
        same_axis(x, y)
        return centred(plus(x.common, y.common), plus(x.varying, y.varying), x.axis)
    split, other = (x, y) if isinstance(x, SplitTensor) else (y, x)
    constant = against(other, split)
    if constant.shape[split.axis] == 1:
        return SplitTensor(plus(split.common, scaled(constant)), split.varying, split.axis)
    return centred(split.common, plus(split.varying, scaled(constant)), split.axis)


@rule(torch.sub, Tensor.sub, Tensor.__sub__)
def subtract(x: Any, y: Any, *, alpha: float = 1.0) -> SplitTensor:
    return add(x, multiply(y, -alpha) if isinstance(y, SplitTensor) else y * -alpha)


@rule(Tensor.__rsub__, torch.rsub)
def subtract_from(x: Any, y: Any) -> SplitTensor:
    return subtract(y, x)


@rule(Tensor.neg, torch.neg, Tensor.__neg__)
def negative(x: SplitTensor) -> Tensor:
    return multiply(x, -1.0)


@rule(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, Tensor.mul_, Tensor.__imul__)
def multiply(x: Any, y: Any) -> Tensor:
    """(a + r)(b + s) - ab = a s + r (b + s); by a factor that differs from token to token, plain numbers."""
    if isinstance(x, SplitTensor) and isinstance(y, SplitTensor):
        same_axis(x, y)
        whole = plus(y.common, y.varying)
        varying = plus(product(x.common, y.varying), product(x.varying, whole))
        return centred(product(x.common, y.common), varying, x.axis)
    split, other = (x, y) if isinstance(x, SplitTensor) else (y, x)
    factor = against(other, split)
    if factor.shape[split.axis] != 1:
        plain: Tensor = split.plain() * other
        return plain
    return SplitTensor(times(split.common, factor), times(split.varying, factor), split.axis)


@rule(torch.div, Tensor.div, Tensor.__truediv__, Tensor.true_divide)
def divide(x: Any, y: Any) -> Tensor:
    if isinstance(y, SplitTensor):
        raise InputError("--exact has no rule for a division by the stream: leave --exact out.")
    return multiply(x, 1.0 / y)


@rule(torch.pow, Tensor.pow, Tensor.__pow__)
def power(x: SplitTensor, exponent: Any) -> Tensor:
    """Whole powers, by repeated products."""
    if exponent not in (2, 3):
        raise InputError(f"--exact has no rule for the power {exponent}: leave --exact out.")
    square = multiply(x, x)
    return square if exponent == 2 else multiply(square, x)


@rule(torch.square, Tensor.square)
def square(x: SplitTensor) -> Tensor:
    return multiply(x, x)


def same_axis(x: SplitTensor, y: SplitTensor) -> None:
    if x.axis != y.axis or x.dim() != y.dim():
        raise InputError(
            f"--exact cannot combine shapes {tuple(x.shape)} and {tuple(y.shape)}: leave --exact out."
        )


def against(other: Any, split: SplitTensor) -> Array:
    """A number or a plain tensor with as many axes as the split one."""
    array = numbers(other) if isinstance(other, Tensor) else np.asarray(float(other))
    return array.reshape((1,) * (split.dim() - array.ndim) + array.shape)


def numbers(tensor: Tensor) -> Array:
    array: Array = tensor.detach().to(torch.float64).numpy()
    return array
