"""Norms: functions, modules that are named so, and hand-written modules that are not and undo any scaling of their input."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import BlockStack, map_block_modules_to_paths
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Kwargs, Output
from attncli.tolerances import UNNAMED_NORM

FUNCTIONS = frozenset({"layer_norm", "rms_norm", "group_norm", "batch_norm", "normalize"})
"""Norms that are called as functions, with the tensor first."""

FACTOR = 4.0
"""Large against the epsilon in a norm's denominator, and exact in every float type."""


def is_norm_layer(module: nn.Module) -> bool:
    """Whether it is a module without submodules whose class is named a norm: LayerNorm, T5LayerNorm, LlamaRMSNorm."""
    return "norm" in type(module).__name__.lower() and not any(module.children())


@contextmanager
def refuse_unrecognised_norm_layers(
    model: nn.Module, stacks: tuple[BlockStack, ...]
) -> Iterator[None]:
    """Within, refuse by name any module of a block that acts as a norm though its class name does not show it."""
    parts = map_block_modules_to_paths(model, stacks)
    names = {module: name for module, name in parts.items() if is_handwritten_leaf_module(module)}

    def refuse_forward_of_norm_layer(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        output = forward(*args, **kwargs)
        if len(args) == 1 and not kwargs and is_module_scale_invariant(forward, args[0], output):
            raise InputError(
                f"{names[module]} ({type(module).__name__}) gives the same for its input and four times its input: "
                "it acts as a norm, but switching norms off would leave it on."
            )
        return output

    with wrap_forwards(names, refuse_forward_of_norm_layer):
        yield


def is_handwritten_leaf_module(module: nn.Module) -> bool:
    """Whether it is a module without submodules, neither torch's nor a norm by name."""
    own = not type(module).__module__.startswith("torch.")
    return own and not any(module.children()) and not is_norm_layer(module)


def is_module_scale_invariant(forward: Function, value: Output, output: Output) -> bool:
    """Whether a tensor and its multiple give the same result, which is not constant."""
    if not (isinstance(value, torch.Tensor) and isinstance(output, torch.Tensor)):
        return False
    if value.shape != output.shape or not value.is_floating_point() or not output.any():
        return False
    return bool(
        torch.allclose(
            forward(FACTOR * value), output, rtol=UNNAMED_NORM.tolerance_for_dtype(), atol=0
        )
    )
