"""Rules for sums, products, linear layers and convolutions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.forward_argument_types import Output
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts
from attncli.tensor_subclasses.residual_split.attention_score_terms import (
    HIDDEN,
    ScoreTerms,
    make_terms_of_computed_scores,
)
from attncli.tensor_subclasses.residual_split.lazy_attention_scores import make_lazy_scores
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    centre_split_parts,
    centre_varying_part,
    make_lazy_split_tensor,
    make_missing_rule_error,
    map_split_parts_linearly,
    rule,
)
from attncli.tensor_subclasses.residual_split.split_tensor_attention import (
    mix_value_vectors_by_weights,
)
from attncli.tensor_subclasses.residual_split.split_tensor_shape_functions import (
    apply_to_token_slices,
    copy_split_tensor,
)
from attncli.tensor_subclasses.torch_function_rules import Operand


@rule(F.linear)
def linear(x: SplitTensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return apply_affine_map(x, to_float64_array(weight).T, bias)


@rule(torch.addmm, Tensor.addmm)
def addmm(bias: Tensor, x: SplitTensor, weight: Tensor) -> Tensor:
    """addmm, as GPT-2's Conv1D calls it."""
    return apply_affine_map(x, to_float64_array(weight), bias)


@rule(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm)
def matmul(x: Tensor, y: Any) -> Tensor:
    """Products with weights; of queries and keys, which are scores; of attention weights and values."""
    if isinstance(x, SplitTensor):
        if not isinstance(y, SplitTensor) and y.dim() == 2:
            return apply_affine_map(x, to_float64_array(y), None)
        if x.axis == x.dim() - 2:
            return make_lazy_scores(
                ScoreTerms(
                    copy_operand_of_lazy_scores(x),
                    copy_operand_of_lazy_scores(torch.transpose(y, -1, -2)),
                )
            )
    elif y.axis == y.dim() - 2:
        return mix_value_vectors_by_weights(x, y)
    elif y.axis == y.dim() - 1 and x.dim() == 2:
        turned: Any = torch.transpose(y, -1, -2)
        return torch.transpose(apply_affine_map(turned, to_float64_array(x).T, None), -1, -2)
    elif y.axis == y.dim() - 1:
        return torch.matmul(x, y.to_plain_tensor())
    raise SplitTensor.make_unsupported_function_error("a product over tokens")


@rule(torch.baddbmm, Tensor.baddbmm)
def baddbmm(
    bias: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Lazy scores plus a bias."""
    return torch.add(torch.mul(torch.bmm(batch1, batch2), alpha), torch.mul(bias, beta))


def copy_operand_of_lazy_scores(x: Tensor) -> Tensor:
    """A copy of the terms: lazy tensors must not see later changes in place."""
    return copy_split_tensor(x) if isinstance(x, SplitTensor) else x


def apply_affine_map(x: SplitTensor, weight: Array, bias: Tensor | None) -> Tensor:
    """c W + b and V W: neither c nor b enters V."""
    if not isinstance(x, SplitTensor):
        raise make_missing_rule_error("a linear layer whose weights descend from the stream")
    if x.axis == x.dim() - 1:
        return mix_tokens_by_matrix(x, weight, bias)

    def apply_affine_map_to_parts(parts: SplitParts) -> SplitParts:
        common, varying = (part.map_linearly(lambda each: each @ weight) for part in parts)
        return SplitParts(
            common if bias is None else common + make_scaled_array(to_float64_array(bias)), varying
        )

    return make_lazy_split_tensor(
        apply_affine_map_to_parts, (*x.shape[:-1], weight.shape[1]), x.axis, x
    )


def mix_tokens_by_matrix(x: SplitTensor, weight: Array, bias: Tensor | None) -> Tensor:
    """Mix tokens by a matrix of weights: its column sums are no common row."""
    turned: Any = torch.transpose(x, -1, -2)
    mixed: Any = torch.transpose(
        mix_value_vectors_by_weights(torch.from_numpy(weight.T), turned), -1, -2
    )
    return mixed if bias is None else torch.add(mixed, bias)


@rule(F.conv1d, torch.conv1d)
def conv1d(
    x: SplitTensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution of one token at a time is a linear layer; one over several runs on plain numbers.

    At its ends it sees fewer tokens, so the common row itself comes out different from token to token: nothing is lost.
    """
    if weight.shape[-1] > 1 or x.axis != x.dim() - 1:
        return F.conv1d(x.to_plain_tensor(), weight, bias, stride, padding, dilation, groups)
    doubled = weight.double()

    def convolve_split_part(part: Array) -> Array:
        found: Array = F.conv1d(torch.from_numpy(part.copy()), doubled, groups=groups).numpy()
        return found

    mixed = map_split_parts_linearly(x, convolve_split_part, x.axis)
    return mixed if bias is None else add(mixed, bias[:, None])


@rule(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def add(x: Any, y: Any, *, alpha: float = 1.0) -> Output:
    """Add common parts and varying parts; a plain operand that differs between tokens joins the varying part."""
    if alpha != 1.0:
        y = multiply(y, alpha) if isinstance(y, SplitTensor) else y * alpha
    if isinstance(x, SplitTensor) and isinstance(y, SplitTensor):
        return combine_split_tensors_elementwise(add_split_parts, x, y)
    split, other = (x, y) if isinstance(x, SplitTensor) else (y, x)
    if is_attention_score_mask(other) and split.axis == split.dim() - 2:
        return torch.add(make_lazy_scores(make_terms_of_computed_scores(split)), other)
    constant = convert_operand_to_float64_array(other, split)
    if constant.shape[split.axis] == 1:
        shift = make_scaled_array(constant.copy())  # the code may go on to change it in place

        def add_to_common_part(parts: SplitParts) -> SplitParts:
            return SplitParts(parts.common + shift, parts.varying)

        return make_lazy_split_tensor(add_to_common_part, split.shape, split.axis, split)
    varying = split.varying + make_scaled_array(constant)
    return centre_varying_part(split.common, varying, split.axis)


def combine_split_tensors_elementwise(
    function: Callable[[int, SplitParts, SplitParts], SplitParts], x: SplitTensor, y: SplitTensor
) -> SplitTensor:
    """A function of two split tensors entry by entry, given their token axis."""
    if x.axis != y.axis or x.dim() != y.dim():
        raise SplitTensor.make_unsupported_function_error(
            f"a combination of shapes {tuple(x.shape)} and {tuple(y.shape)}"
        )
    axis, shape = x.axis, np.broadcast_shapes(x.shape, y.shape)
    return make_lazy_split_tensor(partial(function, axis), shape, axis, x, y)


def add_split_parts(axis: int, x: SplitParts, y: SplitParts) -> SplitParts:
    common, varying = (one + other for one, other in zip(x, y, strict=True))
    return centre_split_parts(common, varying, axis)


def multiply_split_parts(x: SplitParts, y: SplitParts) -> SplitParts:
    """(a + r)(b + s) - ab = a s + r (b + s)."""
    whole = y.common + y.varying
    varying = x.common * y.varying + x.varying * whole
    return SplitParts(x.common * y.common, varying)


def is_attention_score_mask(other: Operand) -> bool:
    """Whether an added operand is a mask of scores."""
    return isinstance(other, Tensor) and bool((other <= HIDDEN).any())


@rule(torch.sub, Tensor.sub, Tensor.__sub__)
def subtract(x: Operand, y: Operand, *, alpha: float = 1.0) -> Output:
    return add(x, multiply(y, -alpha) if isinstance(y, SplitTensor) else y * -alpha)


@rule(Tensor.__rsub__, torch.rsub)
def subtract_from(x: Operand, y: Operand) -> Output:
    return subtract(y, x)


@rule(Tensor.neg, torch.neg, Tensor.__neg__)
def negative(x: SplitTensor) -> SplitTensor:
    return multiply(x, -1.0)


@rule(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.multiply, Tensor.multiply)
def multiply(x: Any, y: Any) -> SplitTensor:
    if isinstance(x, SplitTensor) and isinstance(y, SplitTensor):
        return combine_split_tensors_elementwise(
            partial(apply_to_token_slices, multiply_split_parts), x, y
        )
    split, other = (x, y) if isinstance(x, SplitTensor) else (y, x)
    factor = convert_operand_to_float64_array(other, split)
    if factor.shape[split.axis] != 1:
        return multiply_by_token_factors(split, factor)
    factor = factor.copy()  # the code may go on to change it in place

    def multiply_split_parts_by_factor(parts: SplitParts) -> SplitParts:
        return SplitParts(*(part * factor for part in parts))

    return make_lazy_split_tensor(
        multiply_split_parts_by_factor,
        np.broadcast_shapes(split.shape, factor.shape),
        split.axis,
        split,
    )


def multiply_by_token_factors(x: SplitTensor, factor: Array) -> SplitTensor:
    """Multiply every token by its own numbers g, such as its angle: c (g - ḡ) + V g is then the varying part."""
    nothing = x.common * 0.0
    return centre_varying_part(nothing, x.common * factor + x.varying * factor, x.axis)


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
    whole = x.common + x.varying
    common, other = reciprocal_scaled(x.common), reciprocal_scaled(whole)
    return centre_varying_part(common, -(x.varying * common * other), x.axis)


def reciprocal_scaled(part: ScaledArray) -> ScaledArray:
    """1 over every entry, none of which may be zero."""
    if not np.all(part.mantissa):
        raise SplitTensor.make_unsupported_function_error("a division by zero")
    return make_scaled_array(1.0 / part.mantissa, -part.exponent)


@rule(torch.pow, Tensor.pow, Tensor.__pow__)
def power(x: SplitTensor, exponent: Operand) -> Tensor:
    """Whole powers, by repeated products."""
    if exponent not in (2, 3, 4):
        raise SplitTensor.make_unsupported_function_error(f"the power {exponent}")
    square = multiply(x, x)
    return {2: lambda: square, 3: lambda: multiply(square, x), 4: lambda: multiply(square, square)}[
        int(exponent)
    ]()


@rule(torch.square, Tensor.square)
def square(x: SplitTensor) -> Tensor:
    return multiply(x, x)


def convert_operand_to_float64_array(other: Operand, split: SplitTensor) -> Array:
    """A number or a plain tensor with as many axes as the split one."""
    array = to_float64_array(other) if isinstance(other, Tensor) else np.asarray(float(other))
    return array.reshape((1,) * (split.dim() - array.ndim) + array.shape)


def to_float64_array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().to(torch.float64).numpy()
    return array
