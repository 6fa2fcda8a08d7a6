"""Rules for norms and activations: the arithmetic is that of the synthetic networks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.maths.common_row_arithmetic import activation_functions
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    NEGLIGIBLE,
    ScaledArray,
    align_scaled_to_exponent,
    expm1_scaled,
    find_common_exponent,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import (
    SplitParts,
    SplitState,
    normalise_features_of_tokens,
)
from attncli.tensor_subclasses.residual_split import gelu_and_erf
from attncli.tensor_subclasses.residual_split.attention_score_terms import (
    make_terms_of_computed_scores,
)
from attncli.tensor_subclasses.residual_split.lazy_attention_scores import LazyWeights
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    centre_split_parts,
    centre_varying_part,
    convert_split_to_plain,
    make_lazy_split_tensor,
    map_split_parts_linearly,
    rule,
)
from attncli.tensor_subclasses.residual_split.split_tensor_arithmetic import (
    add,
    multiply,
    negative,
    reciprocal,
    reciprocal_scaled,
    subtract,
    subtract_from,
    to_float64_array,
)
from attncli.tensor_subclasses.residual_split.split_tensor_shape_functions import (
    apply_to_token_slices,
)
from attncli.tensor_subclasses.torch_function_rules import register_norm_layer_rules

Function = Callable[[SplitParts], SplitParts]


def apply_elementwise_function(function: Function, x: SplitTensor) -> SplitTensor:
    axis = x.axis
    return make_lazy_split_tensor(partial(apply_to_token_slices, function, axis), x.shape, axis, x)


def apply_function_slicing_tokens(
    function: Callable[[SplitParts, int], SplitParts], x: SplitTensor
) -> SplitTensor:
    """Apply a function that slices the tokens along their axis itself."""
    axis = x.axis
    return make_lazy_split_tensor(
        lambda parts: centre_split_parts(*function(parts, axis), axis), x.shape, axis, x
    )


@rule(F.relu, torch.relu, Tensor.relu)
def relu(x: SplitTensor, inplace: bool = False) -> SplitTensor:
    return apply_elementwise_function(activation_functions.relu, x)


@rule(F.silu, torch.nn.functional.silu)
def silu(x: SplitTensor, inplace: bool = False) -> SplitTensor:
    return apply_elementwise_function(activation_functions.silu, x)


@rule(F.gelu)
def gelu(x: SplitTensor, approximate: str = "none") -> SplitTensor:
    if approximate == "tanh":
        return apply_elementwise_function(activation_functions.gelu, x)
    return apply_function_slicing_tokens(gelu_and_erf.gelu, x)


@rule(torch.tanh, Tensor.tanh, F.tanh)
def tanh(x: SplitTensor) -> SplitTensor:
    return apply_elementwise_function(activation_functions.tanh, x)


@rule(torch.sigmoid, Tensor.sigmoid, F.sigmoid)
def sigmoid(x: SplitTensor) -> SplitTensor:
    return apply_elementwise_function(activation_functions.sigmoid, x)


@rule(torch.exp, Tensor.exp)
def exponential(x: SplitTensor) -> SplitTensor:
    """e^(a + r) - e^a = e^a (e^r - 1)."""
    common = make_scaled_array(np.exp(x.common.value()))
    return centre_varying_part(common, common * expm1_scaled(x.varying), x.axis)


@rule(torch.sqrt, Tensor.sqrt)
def square_root(x: SplitTensor) -> SplitTensor:
    """√(a + r) - √a = r/(√(a + r) + √a)."""
    common, whole = (square_root_scaled(part) for part in (x.common, x.common + x.varying))
    return centre_varying_part(common, x.varying * reciprocal_scaled(common + whole), x.axis)


@rule(torch.rsqrt, Tensor.rsqrt)
def inverse_square_root(x: SplitTensor) -> Tensor:
    return reciprocal(square_root(x))


def square_root_scaled(part: ScaledArray) -> ScaledArray:
    """The root of every entry; an odd exponent leaves one factor of 2."""
    if float(part.mantissa.min()) < 0.0:
        raise SplitTensor.make_unsupported_function_error("the root of a negative number")
    odd = part.exponent % 2
    return make_scaled_array(np.sqrt(part.mantissa * 2.0**odd), (part.exponent - odd) // 2)


@rule(F.softplus)
def softplus(x: SplitTensor, beta: float = 1.0, threshold: float = 20.0) -> SplitTensor:
    """log(1 + e^x), of which log(1 + e^(a + r)) - log(1 + e^a) = log(1 + σ(a) (e^r - 1))."""
    a, r = (part.value() * beta for part in (x.common, x.varying))
    if float((a + r).max()) > threshold:
        raise SplitTensor.make_unsupported_function_error("softplus beyond its threshold")
    growth = make_scaled_array(np.exp(-np.logaddexp(0.0, -a))) * expm1_scaled(x.varying * beta)
    change = log1p_scaled(growth)
    return centre_varying_part(
        make_scaled_array(np.logaddexp(0.0, a) / beta), change * (1.0 / beta), x.axis
    )


def log1p_scaled(part: ScaledArray) -> ScaledArray:
    """log(1 + x), to full relative accuracy however small x is."""
    return part if part.exponent < NEGLIGIBLE else make_scaled_array(np.log1p(part.value()))


@rule(torch.allclose)
def allclose(x: Tensor, other: Tensor, rtol: float, atol: float) -> bool:
    """allclose, on plain numbers."""
    return torch.allclose(convert_split_to_plain(x), convert_split_to_plain(other), rtol, atol)


@rule(torch.clamp, Tensor.clamp, torch.clip, Tensor.clip)
def clamp(x: SplitTensor, min: float | None = None, max: float | None = None) -> SplitTensor:
    """Clamp as a shifted relu, from below or above; where it limits nothing, nothing is lost."""
    whole = x.to_plain_tensor()
    if torch.equal(torch.clamp(whole, min, max), whole):
        return SplitTensor(x.common, x.varying, x.axis)
    if min is not None:
        x = add(relu(subtract(x, min)), min)
    return x if max is None else subtract_from(relu(subtract_from(x, max)), max)


@rule(F.leaky_relu)
def leaky_relu(x: SplitTensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return torch.add(torch.mul(x, negative_slope), torch.mul(relu(x), 1.0 - negative_slope))


@rule(F.elu)
def elu(x: SplitTensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, α (e^x - 1) below."""
    below = subtract(exponential(negative(relu(negative(x)))), 1.0)
    return torch.add(relu(x), torch.mul(below, alpha))


@rule(F.relu6)
def relu6(x: SplitTensor, inplace: bool = False) -> SplitTensor:
    return clamp(x, 0.0, 6.0)


@rule(F.hardtanh)
def hardtanh(
    x: SplitTensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> SplitTensor:
    return clamp(x, min_val, max_val)


@rule(F.mish)
def mish(x: SplitTensor, inplace: bool = False) -> Tensor:
    return torch.mul(x, tanh(softplus(x)))


@rule(torch.erf, Tensor.erf)
def erf(x: SplitTensor) -> SplitTensor:
    return apply_function_slicing_tokens(gelu_and_erf.erf, x)


@rule(torch.mean, Tensor.mean)
def mean(
    x: SplitTensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, **_: object
) -> Tensor:
    """Mean over features, of c and V alike; over tokens, on plain numbers."""
    return reduce_over_features(np.mean, torch.mean, x, dim, keepdim)


@rule(torch.sum, Tensor.sum)
def sum_features(
    x: SplitTensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, **_: object
) -> Tensor:
    return reduce_over_features(np.sum, torch.sum, x, dim, keepdim)


def reduce_over_features(
    linear: Any, on_numbers: Any, x: SplitTensor, dim: int | Sequence[int] | None, keepdim: bool
) -> Tensor:
    """A linear function of every token's features."""
    dims = (dim,) if isinstance(dim, int) else tuple(range(x.dim()) if dim is None else dim)
    axes = tuple(axis % x.dim() for axis in dims)
    if x.axis in axes:
        result: Tensor = on_numbers(x.to_plain_tensor(), axes, keepdim)
        return result
    gone = 0 if keepdim else sum(axis < x.axis for axis in axes)
    return map_split_parts_linearly(
        x, lambda part: linear(part, axis=axes, keepdims=keepdim), x.axis - gone
    )


@rule(torch.var, Tensor.var)
def variance(
    x: SplitTensor,
    dim: Any = None,
    *,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> Tensor:
    """Variance over features: the mean square of the deviations from the mean."""
    if not isinstance(dim, int) or dim % x.dim() == x.axis:
        return torch.var(x.to_plain_tensor(), dim, unbiased=unbiased, keepdim=keepdim)
    less = int(unbiased) if correction is None else int(correction)
    width = x.shape[dim]
    rest = subtract(x, mean(x, dim, True))
    return torch.mul(mean(multiply(rest, rest), dim, keepdim), width / (width - less))


@rule(torch.std, Tensor.std)
def standard_deviation(
    x: SplitTensor, dim: int | Sequence[int] | None = None, **how: Any
) -> Tensor:
    return torch.sqrt(variance(x, dim, **how))


@rule(torch.softmax, Tensor.softmax, F.softmax)
def softmax(x: SplitTensor, dim: int | None = None, *_: object, **__: object) -> Tensor:
    """Softmax over features: of a router's logits, or of attention scores that became a split tensor."""
    if dim is None or dim % x.dim() != x.dim() - 1 or x.axis != x.dim() - 2:
        return torch.softmax(x.to_plain_tensor(), dim if dim is not None else -1)
    terms = make_terms_of_computed_scores(x)
    made: Tensor = LazyWeights.from_score_terms(terms, terms.shape)
    return made


def apply_layer_or_rms_norm(
    x: SplitTensor, epsilon: float, centre: bool, gain: Tensor | None, bias: Tensor | None
) -> SplitTensor:
    """A layer or RMS norm over the features, each head separately."""
    axis = x.axis
    if axis == x.dim() - 1:
        raise SplitTensor.make_unsupported_function_error("a norm over tokens")
    return make_lazy_split_tensor(
        lambda parts: normalise_features_per_head(parts, axis, epsilon, centre, gain, bias),
        x.shape,
        axis,
        x,
    )


register_norm_layer_rules(rule, apply_layer_or_rms_norm)


def normalise_features_per_head(
    parts: SplitParts,
    axis: int,
    epsilon: float,
    centre: bool,
    gain: Tensor | None,
    bias: Tensor | None,
) -> SplitParts:
    states = [SplitState(*head, plain=False) for head in iter_split_parts_per_head(parts, axis)]
    normal = [normalise_features_of_tokens(state, epsilon, centre).parts for state in states]
    common, varying = (
        stack_scaled_arrays([getattr(each, side) for each in normal])
        for side in ("common", "varying")
    )
    shape = parts.varying.mantissa.shape
    common, varying = (
        reshape_stacked_heads(common, shape, axis),
        reshape_stacked_heads(varying, shape, axis),
    )
    if gain is not None:
        common, varying = (common * to_float64_array(gain), varying * to_float64_array(gain))
    if bias is not None:
        common = common + make_scaled_array(to_float64_array(bias))
    return SplitParts(common, varying)  # which is centred as the norm left it


def iter_split_parts_per_head(
    parts: SplitParts, axis: int
) -> Iterator[tuple[ScaledArray, ScaledArray]]:
    """c [feature] and V [token, feature] of every index of the axes that are neither tokens nor features."""
    common, varying = (
        np.moveaxis(part.mantissa, axis, -2).reshape(
            -1, part.mantissa.shape[axis], part.mantissa.shape[-1]
        )
        for part in parts
    )
    for c, v in zip(common, varying, strict=True):
        yield (
            make_scaled_array(c[0], parts.common.exponent),
            make_scaled_array(v, parts.varying.exponent),
        )


def stack_scaled_arrays(parts: Sequence[ScaledArray]) -> ScaledArray:
    """Stack parts under one common exponent."""
    top = find_common_exponent(*parts)
    return make_scaled_array(np.stack([align_scaled_to_exponent(part, top) for part in parts]), top)


def reshape_stacked_heads(part: ScaledArray, shape: Sequence[int], axis: int) -> ScaledArray:
    """A part by heads [head, token or none, feature] in the shape that it had before."""
    others = [size for index, size in enumerate(shape[:-1]) if index != axis]
    return part.apply_layout_change(
        lambda heads: np.moveaxis(heads.reshape(*others, -1, shape[-1]), -2, axis)
    )
