"""Rules for norms and activations: the arithmetic is that of the synthetic networks."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.checkpoints.exact.arithmetic import numbers
from attncli.checkpoints.exact.tensor import SplitTensor, along_features, centred, rule
from attncli.maths import activations
from attncli.maths.scaled import Scaled, plus, scaled, times
from attncli.maths.split import Parts, Split, normalised

Function = Callable[[Parts], Parts]


def applied(function: Function, x: SplitTensor) -> SplitTensor:
    common, varying = function(Parts(x.common, x.varying))
    return centred(common, varying, x.axis)


@rule(F.relu, torch.relu, Tensor.relu, torch.relu_)
def relu(x: SplitTensor, inplace: bool = False) -> SplitTensor:
    return applied(activations.relu, x)


@rule(F.silu, torch.nn.functional.silu)
def silu(x: SplitTensor, inplace: bool = False) -> SplitTensor:
    return applied(activations.silu, x)


@rule(F.gelu)
def gelu(x: SplitTensor, approximate: str = "none") -> SplitTensor:
    return applied(activations.gelu if approximate == "tanh" else activations.gelu_erf, x)


@rule(torch.tanh, Tensor.tanh, F.tanh)
def tanh(x: SplitTensor) -> SplitTensor:
    return applied(activations.tanh, x)


@rule(torch.sigmoid, Tensor.sigmoid, F.sigmoid)
def sigmoid(x: SplitTensor) -> SplitTensor:
    return applied(activations.sigmoid, x)


@rule(F.layer_norm, torch.layer_norm)
def layer_norm(
    x: SplitTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    if not is_stream(x):
        return F.layer_norm(x.plain(), list(normalized_shape), weight, bias, eps)
    return norm(x, eps, True, weight, bias)


@rule(F.rms_norm, torch.rms_norm)
def rms_norm(
    x: SplitTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    if not is_stream(x):
        return F.rms_norm(x.plain(), list(normalized_shape), weight, eps)
    return norm(x, torch.finfo(torch.float64).eps if eps is None else eps, False, weight, None)


def is_stream(x: SplitTensor) -> bool:
    """Tokens of one feature vector each: the norms of single heads' queries are left to plain numbers."""
    return x.axis == x.dim() - 2 and x.numel() == x.shape[-1] * x.shape[-2]


def norm(
    x: SplitTensor, epsilon: float, centre: bool, gain: Tensor | None, bias: Tensor | None
) -> SplitTensor:
    """A layer or RMS norm over the features."""
    c, v = along_features(x)
    state = Split(Scaled(c[0], x.common.exponent), Scaled(v, x.varying.exponent), plain=False)
    common, varying = normalised(state, epsilon, centre).parts
    if gain is not None:
        common, varying = times(common, numbers(gain)), times(varying, numbers(gain))
    if bias is not None:
        common = plus(common, scaled(numbers(bias)))
    shape = [*(1 for _ in x.shape[:-1]), x.shape[-1]]
    return centred(
        Scaled(common.mantissa.reshape(shape), common.exponent),
        Scaled(varying.mantissa.reshape(x.shape), varying.exponent),
        x.axis,
    )
