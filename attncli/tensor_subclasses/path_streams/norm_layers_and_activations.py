"""Rules for norms and activations: linear once the full stream has fixed the denominators and the ratios f(x)/x."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.forward_argument_types import Args, Function, Kwargs, Output
from attncli.tensor_subclasses.path_streams.partial_streams import make_missing_rule_error
from attncli.tensor_subclasses.path_streams.path_tensor import PathTensor, rule
from attncli.tensor_subclasses.path_streams.path_tensor_arithmetic import add_bias_to_path_streams
from attncli.tensor_subclasses.residual_split.handwritten_norm_layers import (
    RecognisedNorm,
    is_handwritten_norm_layer,
    recognise_norm_layer,
)
from attncli.tensor_subclasses.torch_function_rules import register_norm_layer_rules

ACTIVATIONS = ("transformers.activations", "torch.nn.modules.activation")
"""Modules in which classes of activations are defined."""


def apply_layer_or_rms_norm(
    x: PathTensor, epsilon: float, centre: bool, gain: Tensor | None, bias: Tensor | None
) -> PathTensor:
    """(x - mean) / σ with the full stream's σ, over the last axis."""
    numbers = x.view_with_path_stream_axis()
    if centre:
        numbers = numbers - numbers.mean(dim=-1, keepdim=True)
    deviation = torch.rsqrt(numbers[0].detach().square().mean(dim=-1, keepdim=True) + epsilon)
    numbers = numbers * (deviation if gain is None else deviation * gain)
    return add_bias_to_path_streams(x.wrap_as_path_streams(numbers.reshape(x.shape)), bias)


register_norm_layer_rules(rule, apply_layer_or_rms_norm)


def apply_activation(x: PathTensor, function: Callable[[Tensor], Tensor]) -> PathTensor:
    """Multiply every stream by f(x)/x of the full one; where x is 0 so is f(x), and any ratio would do."""
    full = x.view_with_path_stream_axis()[0].detach()
    ratio = torch.where(full == 0, torch.zeros_like(full), function(full) / full)
    through = x.multiply_all_path_streams(ratio).transform_path_streams(
        x.streams.update_paths_after_mlp
    )
    return through.wrap_as_path_streams(through.numbers, activated=True)


@rule(F.relu, torch.relu, Tensor.relu)
def relu(x: PathTensor, inplace: bool = False) -> PathTensor:
    return apply_activation(x, F.relu)


@rule(F.silu)
def silu(x: PathTensor, inplace: bool = False) -> PathTensor:
    return apply_activation(x, F.silu)


@rule(F.gelu)
def gelu(x: PathTensor, approximate: str = "none") -> PathTensor:
    return apply_activation(x, lambda numbers: F.gelu(numbers, approximate=approximate))


@rule(torch.tanh, Tensor.tanh, F.tanh)
def tanh(x: PathTensor) -> PathTensor:
    return apply_activation(x, torch.tanh)


@contextmanager
def wrap_norm_layers_and_activations(model: nn.Module) -> Iterator[None]:
    """Within, the model's handwritten norms and its activations accept path tensors."""
    norms: dict[nn.Module, RecognisedNorm | None] = {}

    def run_wrapped_norm_layer(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        x = args[0] if args else None
        if not isinstance(x, PathTensor):
            return forward(*args, **kwargs)
        if module not in norms:
            norms[module] = recognise_norm_layer(module, forward, x.shape[-1])
        found = norms[module]
        if found is None or len(args) > 1 or kwargs:
            raise make_missing_rule_error(f"the norm {type(module).__name__}")
        gain = None if found.gain is None else found.gain.to(x.dtype)
        bias = None if found.bias is None else found.bias.to(x.dtype)
        return apply_layer_or_rms_norm(x, found.epsilon, found.centre, gain, bias)

    def run_wrapped_activation(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        x = args[0] if args else None
        if not isinstance(x, PathTensor):
            return forward(*args, **kwargs)
        if bool(forward(torch.zeros(1, dtype=x.dtype, device=x.device)).any()):
            raise make_missing_rule_error(
                f"the activation {type(module).__name__}, which is not 0 at 0"
            )
        return apply_activation(x, forward)

    activations = (module for module in model.modules() if is_activation(module))
    with (
        wrap_forwards(filter(is_handwritten_norm_layer, model.modules()), run_wrapped_norm_layer),
        wrap_forwards(activations, run_wrapped_activation),
    ):
        yield


def is_activation(module: nn.Module) -> bool:
    """Whether it is an activation of torch or transformers without weights."""
    known = type(module).__module__ in ACTIVATIONS
    return known and not any(True for _ in module.parameters())
