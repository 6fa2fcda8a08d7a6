"""Rules for sums, products and linear layers."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.maths.residuals.scaled_arrays import (
    Array,
    ScaledArray,
    add_scaled_arrays,
    make_scaled_array,
    multiply_scaled_arrays,
    multiply_scaled_by_plain,
)
from attncli.tensor_subclasses.dispatch import Operand
from attncli.tensor_subclasses.residual_split.score_terms import HIDDEN, ScoreTerms, terms_of_scores
from attncli.tensor_subclasses.residual_split.split_attention import mix_values_by_weights
from attncli.tensor_subclasses.residual_split.split_scores import make_scores
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    centre_split,
    no_rule_error,
    rule,
)


@rule(F.linear)
def linear(x: Any, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return apply_affine(x, to_float64_array(weight).T, bias)


@rule(torch.addmm, Tensor.addmm)
def addmm(bias: Tensor, x: Any, weight: Tensor) -> Tensor:
    """addmm, as GPT-2's Conv1D calls it."""
    return apply_affine(x, to_float64_array(weight), bias)


@rule(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm)
def matmul(x: Tensor, y: Any) -> Tensor:
    """Products with weights; of queries and keys, which are scores; of attention weights and values."""
    if isinstance(x, SplitTensor):
        if not isinstance(y, SplitTensor) and y.dim() == 2:
            return apply_affine(x, to_float64_array(y), None)
        if x.axis == x.dim() - 2:
            return make_scores(
                ScoreTerms(snapshot_terms(x), snapshot_terms(torch.transpose(y, -1, -2)))
            )
    elif y.axis == y.dim() - 2:
        return mix_values_by_weights(x, y)
    elif y.axis == y.dim() - 1 and x.dim() == 2:
        turned: Any = torch.transpose(y, -1, -2)
        return torch.transpose(apply_affine(turned, to_float64_array(x).T, None), -1, -2)
    elif y.axis == y.dim() - 1:
        return torch.matmul(x, y.plain())
    raise SplitTensor.refusal("a product over tokens")


@rule(torch.baddbmm, Tensor.baddbmm)
def baddbmm(bias: Tensor, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Lazy scores plus a bias."""
    return torch.add(torch.mul(torch.bmm(batch1, batch2), alpha), torch.mul(bias, beta))


def snapshot_terms(x: Tensor) -> Tensor:
    """A copy of the terms: lazy tensors must not see later changes in place."""
    return SplitTensor(x.common, x.varying, x.axis) if isinstance(x, SplitTensor) else x


def apply_affine(x: SplitTensor, weight: Array, bias: Tensor | None) -> Tensor:
    """c W + b and V W: neither c nor b enters V."""
    if not isinstance(x, SplitTensor):
        raise no_rule_error("a linear layer whose weights descend from the stream")
    if x.axis == x.dim() - 1:
        return mix_tokens_by_weights(x, weight, bias)
    common, varying = (
        make_scaled_array(part.mantissa @ weight, part.exponent) for part in (x.common, x.varying)
    )
    if bias is not None:
        common = add_scaled_arrays(
            common,
            make_scaled_array(np.broadcast_to(to_float64_array(bias), common.mantissa.shape)),
        )
    return SplitTensor(common, varying, x.axis)


def mix_tokens_by_weights(x: SplitTensor, weight: Array, bias: Tensor | None) -> Tensor:
    """Mix tokens by a matrix of weights: its column sums are no common row."""
    turned: Any = torch.transpose(x, -1, -2)
    mixed: Any = torch.transpose(mix_values_by_weights(torch.from_numpy(weight.T), turned), -1, -2)
    return mixed if bias is None else torch.add(mixed, bias)


@rule(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def add(x: Any, y: Any, *, alpha: float = 1.0) -> Any:
    """Add common parts and varying parts; a plain operand that differs between tokens joins the varying part."""
    if alpha != 1.0:
        y = multiply(y, alpha) if isinstance(y, SplitTensor) else y * alpha
    if isinstance(x, SplitTensor) and isinstance(y, SplitTensor):
        require_same_axis(x, y)
        return centre_split(
            add_scaled_arrays(x.common, y.common), add_scaled_arrays(x.varying, y.varying), x.axis
        )
    split, other = (x, y) if isinstance(x, SplitTensor) else (y, x)
    if is_score_mask(other) and split.axis == split.dim() - 2:
        return torch.add(make_scores(terms_of_scores(split)), other)
    constant = align_plain(other, split)
    if constant.shape[split.axis] == 1:
        return SplitTensor(
            add_scaled_arrays(split.common, make_scaled_array(constant)), split.varying, split.axis
        )
    return centre_split(
        split.common, add_scaled_arrays(split.varying, make_scaled_array(constant)), split.axis
    )


def is_score_mask(other: Operand) -> bool:
    """Whether an added operand is a mask of scores."""
    return isinstance(other, Tensor) and bool((other <= HIDDEN).any())


@rule(torch.sub, Tensor.sub, Tensor.__sub__)
def subtract(x: Operand, y: Operand, *, alpha: float = 1.0) -> Any:
    return add(x, multiply(y, -alpha) if isinstance(y, SplitTensor) else y * -alpha)


@rule(Tensor.__rsub__, torch.rsub)
def subtract_from(x: Operand, y: Operand) -> Any:
    return subtract(y, x)


@rule(Tensor.neg, torch.neg, Tensor.__neg__)
def negative(x: SplitTensor) -> SplitTensor:
    return multiply(x, -1.0)


@rule(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.multiply, Tensor.multiply)
def multiply(x: Any, y: Any) -> SplitTensor:
    """(a + r)(b + s) - ab = a s + r (b + s)."""
    if isinstance(x, SplitTensor) and isinstance(y, SplitTensor):
        require_same_axis(x, y)
        whole = add_scaled_arrays(y.common, y.varying)
        varying = add_scaled_arrays(
            multiply_scaled_arrays(x.common, y.varying), multiply_scaled_arrays(x.varying, whole)
        )
        return centre_split(multiply_scaled_arrays(x.common, y.common), varying, x.axis)
    split, other = (x, y) if isinstance(x, SplitTensor) else (y, x)
    factor = align_plain(other, split)
    if factor.shape[split.axis] != 1:
        return multiply_by_token(split, factor)
    return SplitTensor(
        multiply_scaled_by_plain(split.common, factor),
        multiply_scaled_by_plain(split.varying, factor),
        split.axis,
    )


def multiply_by_token(x: SplitTensor, factor: Array) -> SplitTensor:
    """Multiply every token by its own numbers g, such as its angle: c (g - ḡ) + V g is then the varying part."""
    nothing = multiply_scaled_by_plain(x.common, 0.0)
    return centre_split(
        nothing,
        add_scaled_arrays(
            multiply_scaled_by_plain(x.common, factor), multiply_scaled_by_plain(x.varying, factor)
        ),
        x.axis,
    )


@rule(torch.div, Tensor.div, Tensor.__truediv__, Tensor.true_divide, torch.true_divide)
def divide(x: Operand, y: Operand) -> Tensor:
    """(a + r)/(b + s) - a/b = (r - (a/b) s)/(b + s)."""
    if not isinstance(y, SplitTensor):
        return multiply(x, 1.0 / y)
    return multiply(x, reciprocal(y))


@rule(Tensor.__rtruediv__, Tensor.__rdiv__)
def divide_by(x: SplitTensor, y: Operand) -> Tensor:
    return multiply(y, reciprocal(x))


@rule(torch.reciprocal, Tensor.reciprocal)
def reciprocal(x: SplitTensor) -> SplitTensor:
    """1/(a + r) - 1/a = -r/(a (a + r))."""
    whole = add_scaled_arrays(x.common, x.varying)
    common, other = invert_part(x.common), invert_part(whole)
    return centre_split(
        common,
        multiply_scaled_by_plain(
            multiply_scaled_arrays(multiply_scaled_arrays(x.varying, common), other), -1.0
        ),
        x.axis,
    )


def invert_part(part: ScaledArray) -> ScaledArray:
    """1 over every entry, none of which may be zero."""
    if not np.all(part.mantissa):
        raise SplitTensor.refusal("a division by zero")
    return make_scaled_array(1.0 / part.mantissa, -part.exponent)


@rule(torch.pow, Tensor.pow, Tensor.__pow__)
def power(x: SplitTensor, exponent: Any) -> Tensor:
    """Whole powers, by repeated products."""
    if exponent not in (2, 3, 4):
        raise SplitTensor.refusal(f"the power {exponent}")
    square = multiply(x, x)
    return {2: lambda: square, 3: lambda: multiply(square, x), 4: lambda: multiply(square, square)}[
        int(exponent)
    ]()


@rule(torch.square, Tensor.square)
def square(x: SplitTensor) -> Tensor:
    return multiply(x, x)


def require_same_axis(x: SplitTensor, y: SplitTensor) -> None:
    if x.axis != y.axis or x.dim() != y.dim():
        raise SplitTensor.refusal(f"a combination of shapes {tuple(x.shape)} and {tuple(y.shape)}")


def align_plain(other: Operand, split: SplitTensor) -> Array:
    """A number or a plain tensor with as many axes as the split one."""
    array = to_float64_array(other) if isinstance(other, Tensor) else np.asarray(float(other))
    return array.reshape((1,) * (split.dim() - array.ndim) + array.shape)


def to_float64_array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().to(torch.float64).numpy()
    return array
