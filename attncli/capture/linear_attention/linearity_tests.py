"""Test in which argument the output of a call is linear: sums, multiples, other channels, other tokens.

The values of a linear layer are the argument v with y = A v: the output is additive and homogeneous in it, has its
shape, moves it between tokens, and does the same to all features of a head or keeps its channels separate. Keys and
queries, which many kernels are linear in too, mix features or no tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.capture.linear_attention.calls_inside_mixers import (
    KernelCall,
    Key,
    cast_kernel_call_to_float64,
)
from attncli.tolerances import LINEAR_ARGUMENT

LOUD = 30.0
"""How much larger one probe is than the other, which reveals saturation."""

WIDE = 5
"""Width in head widths, to test whether a kernel takes values of any width."""


@dataclass(frozen=True)
class ValueArgument:
    """The argument of a call that is its values, and its axes."""

    key: Key
    token: int
    """The axis of tokens."""
    shared_axis: int | None
    """The axis of features that are mixed alike; None where every channel has a map of its own."""
    wide: bool
    """Whether it takes values with any number of such features."""
    causal: bool
    axes: int
    """The number of axes."""


Function = Callable[[Tensor], Tensor]


def find_value_tensor_argument(call: KernelCall, tokens: int) -> ValueArgument | None:
    """Find the values of a call on a text of so many tokens; None where no argument fits."""
    for attempt in (find_value_argument_in_float64, find_value_argument_in_float32):
        found, tried = attempt(call, tokens)
        if tried:
            return found
    return None


def find_value_argument_in_float64(
    call: KernelCall, tokens: int
) -> tuple[ValueArgument | None, bool]:
    """The values of a call in float64, and whether the test could run: submodules keep their weights' dtype."""
    try:
        with cast_kernel_call_to_float64(call) as full:
            return find_first_linear_argument(full, tokens), True
    except Exception:
        return None, False


def find_value_argument_in_float32(
    call: KernelCall, tokens: int
) -> tuple[ValueArgument | None, bool]:
    try:
        with torch.no_grad():
            return find_first_linear_argument(call.copy_detached_in_float32(), tokens), True
    except Exception:
        return None, False


def find_first_linear_argument(call: KernelCall, tokens: int) -> ValueArgument | None:
    for key, value in call.select_floating_arguments().items():
        if value.ndim not in (3, 4) or value.shape[0] != 1 or tokens not in value.shape[1:]:
            continue
        if call.compute_output_with_new_argument(key, value).shape == value.shape:
            found = classify_axes_of_value_argument(call, key, value, tokens)
            if found is not None:
                return found
    return None


def classify_axes_of_value_argument(
    call: KernelCall, key: Key, value: Tensor, tokens: int
) -> ValueArgument | None:
    """Classify the axes of an argument, if the output is linear in it."""
    draw = RandomArgument(value)

    def compute_output_from_values(values: Tensor) -> Tensor:
        return call.compute_output_with_new_argument(key, values) - rest

    rest = torch.zeros_like(value)
    rest = compute_output_from_values(
        rest
    )  # the part that does not depend on the values, such as a bias
    if not is_function_linear(compute_output_from_values, draw):
        return None
    mixing = [
        axis
        for axis in range(1, value.ndim)
        if value.shape[axis] == tokens
        and not are_entries_independent_along_axis(compute_output_from_values, draw, axis)
    ]
    if len(mixing) != 1:
        return None
    (token,) = mixing
    others = [axis for axis in range(1, value.ndim) if axis != token]
    shared = next(
        (
            axis
            for axis in reversed(others)
            if commutes_with_feature_mixing(compute_output_from_values, draw, axis)
        ),
        None,
    )
    if not all(
        are_entries_independent_along_axis(compute_output_from_values, draw, axis)
        for axis in others
        if axis != shared
    ):
        return None
    wide = shared is not None and does_call_accept_wider_values(call, key, draw, shared)
    return ValueArgument(
        key,
        token,
        shared,
        wide,
        is_function_causal(compute_output_from_values, draw, token),
        value.ndim,
    )


class RandomArgument:
    """Draws random values, always the same, in the shape of one argument."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, *shape: int) -> Tensor:
        found = torch.randn(shape or self.like.shape, generator=self.generator, dtype=torch.float64)
        return found.to(self.like)


def are_outputs_close(value: Tensor, target: Tensor) -> bool:
    most = float(target.abs().max())
    allowed = LINEAR_ARGUMENT.tolerance_for_dtype(target.dtype) * most
    return most > 0.0 and float((value - target).abs().max()) <= allowed


def is_function_linear(apply: Function, draw: RandomArgument) -> bool:
    first, second = draw(), LOUD * draw()
    parts = -0.6 * apply(first) + 1.7 * apply(second)
    together = apply(-0.6 * first + 1.7 * second)
    return are_outputs_close(together, parts) and are_outputs_close(
        apply(first / LOUD) * LOUD, apply(first)
    )


def are_entries_independent_along_axis(apply: Function, draw: RandomArgument, axis: int) -> bool:
    """Whether entries along an axis do not affect one another."""
    if draw.like.shape[axis] == 1:
        return True
    values = draw()
    shape = [1] * values.ndim
    shape[axis] = -1
    weights = draw(values.shape[axis]).view(shape)
    return are_outputs_close(apply(values * weights), apply(values) * weights)


def commutes_with_feature_mixing(apply: Function, draw: RandomArgument, axis: int) -> bool:
    """Whether features along an axis are mixed with those of other tokens all alike: A (v M) = (A v) M."""
    size = draw.like.shape[axis]
    values, mixer = draw(), draw(size, size)
    if size == 1:
        return False

    def mix_features_along_axis(tensor: Tensor) -> Tensor:
        return (tensor.transpose(axis, -1) @ mixer).transpose(axis, -1)

    return are_outputs_close(
        apply(mix_features_along_axis(values)), mix_features_along_axis(apply(values))
    )


def does_call_accept_wider_values(
    call: KernelCall, key: Key, draw: RandomArgument, axis: int
) -> bool:
    """Whether values with more features work as those with fewer do."""
    parts = [draw() for _ in range(WIDE)]
    try:
        found = call.compute_output_with_new_argument(key, torch.cat(parts, axis))
    except Exception:
        return False
    expected = torch.cat([call.compute_output_with_new_argument(key, part) for part in parts], axis)
    return found.shape == expected.shape and are_outputs_close(found, expected)


def is_function_causal(apply: Function, draw: RandomArgument, token: int) -> bool:
    """Whether a token affects none before it, exactly."""
    values = draw()
    size = values.shape[token]
    values.narrow(token, 0, size // 2).zero_()
    return not bool(apply(values).narrow(token, 0, size // 2).any())
