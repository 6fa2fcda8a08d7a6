"""Layer and RMS norms that models write out by hand: recognised by class name, and verified against the rule on random tokens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.ablation.norm_layers import is_norm_layer
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.forward_argument_types import Args, Function, Kwargs, Output
from attncli.tensor_subclasses.residual_split.norm_layers_and_activations import (
    apply_layer_or_rms_norm,
)
from attncli.tensor_subclasses.residual_split.split_tensor import SplitTensor
from attncli.tolerances import HANDWRITTEN_NORM, HANDWRITTEN_NORM_AT_ZERO

EPSILONS = ("variance_epsilon", "eps", "epsilon")
"""transformers' names for the ε of norms."""

SIZES = (1.0, 1e2, 1e-2, 1e-3, 1e-5)
"""Sizes of the tokens on which they must agree: for small ones ε matters."""


@contextmanager
def replace_handwritten_norm_layers(model: nn.Module) -> Iterator[None]:
    """Within, the model's handwritten norms accept split tensors."""
    known: dict[nn.Module, RecognisedNorm | None] = {}

    def normalise_split_tensors(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        x = args[0] if args else None
        if not isinstance(x, SplitTensor):
            return forward(*args, **kwargs)
        if len(args) > 1 or kwargs:
            return forward(*args, **kwargs)
        if module not in known:
            known[module] = recognise_norm_layer(module, forward, x.shape[-1])
        found = known[module]
        if found is None:
            return forward(x)
        return apply_layer_or_rms_norm(x, found.epsilon, found.centre, found.gain, found.bias)

    with wrap_forwards(filter(is_handwritten_norm_layer, model.modules()), normalise_split_tensors):
        yield


class RecognisedNorm(NamedTuple):
    """A layer norm (`centre`) or an RMS norm."""

    epsilon: float
    gain: Tensor | None
    centre: bool = False
    bias: Tensor | None = None


def is_handwritten_norm_layer(module: nn.Module) -> bool:
    return is_norm_layer(module) and not isinstance(module, (nn.LayerNorm, nn.RMSNorm))


def recognise_norm_layer(
    module: nn.Module, usual: Callable[[Tensor], Tensor], width: int
) -> RecognisedNorm | None:
    """Find the norm that equals the module on a few random tokens; None where none does."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(len(SIZES), width, generator=generator, dtype=torch.float64) + 0.5
    tokens = tokens * torch.tensor(SIZES, dtype=torch.float64)[:, None]
    expected = usual(tokens).double()
    for one in iter_candidate_norm_layers(module):
        rows = tokens - tokens.mean(-1, keepdim=True) if one.centre else tokens
        ours = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + one.epsilon)
        ours = ours * (1.0 if one.gain is None else one.gain)
        ours = ours + (0.0 if one.bias is None else one.bias)
        near_zero = HANDWRITTEN_NORM_AT_ZERO.tolerance_for_dtype()
        if torch.allclose(
            ours, expected, rtol=HANDWRITTEN_NORM.tolerance_for_dtype(), atol=near_zero
        ):
            return one
    return None


def iter_candidate_norm_layers(module: nn.Module) -> Iterator[RecognisedNorm]:
    """Iterate over norms that these weights may belong to."""
    epsilon = next((float(getattr(module, e)) for e in EPSILONS if hasattr(module, e)), 0.0)
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    for gain in (weight, None if weight is None else 1.0 + weight.double()):
        for centre in (False, True):
            yield RecognisedNorm(epsilon, gain, centre, bias)
