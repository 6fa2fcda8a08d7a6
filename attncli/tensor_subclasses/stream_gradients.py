"""Sensitivity of the last token's state after the last block to each token's state before the first: plain autograd.

Nothing is frozen and no rule is needed: it is the model's own code. One forward pass keeps what its backward passes need,
and each of these gives one direction of the output against all input positions.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    replace_tensor_argument,
)
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.errors import InputError, shorten_error_text
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.tensor_subclasses.residual_split.split_tensor_forward import StopAfterLastBlock


def sample_orthonormal_directions(width: int, number: int, seed: int) -> Tensor:
    """Draw orthonormal directions [direction, feature]; the axes themselves where as many are requested."""
    if number >= width:
        return torch.eye(width, dtype=torch.float64)
    drawn = torch.randn(
        width, number, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    found: Tensor = torch.linalg.qr(drawn).Q.T
    return found


class DirectionalGradients(NamedTuple):
    """Derivatives of the last token's state y_n in orthonormal directions u."""

    norms: Tensor
    """[direction, token]: ‖u^T ∂y_n/∂x_i‖."""
    width: int
    """The width of y_n."""


def backpropagate_directions(
    model: nn.Module, stack: BlockStack, inputs: Inputs, number: int, seed: int
) -> DirectionalGradients:
    """Run one forward pass, and a backward pass for each direction."""
    passage = GradientInput(stack)
    try:
        with torch.enable_grad(), wrap_forwards(passage.blocks, passage.wrap_forward):
            model(**inputs)
    except StopAfterLastBlock:
        pass
    if passage.start is None or passage.end is None:
        raise InputError(f"stack {stack.name} was not run to its end.")
    state = passage.end[0, -1]
    directions = sample_orthonormal_directions(len(state), number, seed).to(state)
    found = torch.stack(
        [compute_gradient_norms(state, passage.start, each, stack) for each in directions]
    )
    return DirectionalGradients(found, len(state))


def compute_gradient_norms(
    state: Tensor, start: Tensor, direction: Tensor, stack: BlockStack
) -> Tensor:
    try:
        (found,) = torch.autograd.grad(state, start, direction, retain_graph=True)
    except RuntimeError as error:
        raise InputError(
            f"stack {stack.name}: its output has no gradient in its input ({shorten_error_text(error)})."
        ) from error
    if not bool(torch.isfinite(found).all()):
        raise InputError(f"stack {stack.name}: its gradients are not finite.")
    sizes: Tensor = move_to_float64_device(found[0]).double().norm(dim=-1).cpu()
    return sizes


class GradientInput:
    """Makes the first block's input a leaf of the autograd graph, and records the last block's output."""

    def __init__(self, stack: BlockStack) -> None:
        self.stack = stack
        self.blocks = {call.module for call in stack.calls}
        self.done = 0
        self.start: Tensor | None = None
        self.end: Tensor | None = None

    def wrap_forward(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        if self.start is None:
            args, kwargs = self.make_input_leaf_tensor(module, args, kwargs)
        output = forward(*args, **kwargs)
        self.done += 1
        if self.done < len(self.stack.calls):
            return output
        self.end = find_residual_stream_output(output)
        if self.end is None or self.end.dim() != 3 or len(self.end) != 1:
            raise InputError(f"{type(module).__name__} gives no states [1, token, feature].")
        raise StopAfterLastBlock

    def make_input_leaf_tensor(
        self, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> tuple[Any, Any]:
        stream = find_residual_stream_input(args, kwargs)
        if stream is None or stream.dim() != 3 or len(stream) != 1:
            raise InputError(
                f"one text's states [1, token, feature] must go through all blocks, which {type(module).__name__} does not take."
            )
        self.start = stream.detach().clone().requires_grad_()
        return replace_tensor_argument(args, kwargs, stream, self.start)
