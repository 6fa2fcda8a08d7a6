"""The two sides of a sum or product: `a + b`, `a += b`, `torch.add(a, b, alpha=2)` and their kin."""

from typing import Any, NamedTuple

import numpy as np
import torch

from attncli.forward_argument_types import Args, Kwargs, Output

ADD = frozenset({"add", "add_", "__add__", "__radd__", "__iadd__"})
SCALE = frozenset(
    {
        "mul", "mul_", "multiply", "multiply_", "__mul__", "__rmul__", "__imul__",
        "div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__",
    }
)  # fmt: skip


class Operands(NamedTuple):
    """The two sides, and the factor of the second."""

    first: Any
    second: Any
    alpha: float = 1

    def broadcast_summand_of_addition(self, position: int) -> torch.Tensor:
        """One of two summands as it enters the sum: broadcast and cast."""
        summand: torch.Tensor = (self.first, self.second)[position]
        if position == 1 and self.alpha != 1:
            summand = summand * self.alpha
        shape = np.broadcast_shapes(self.first.shape, self.second.shape)
        return summand.expand(shape).to(torch.result_type(self.first, self.second))


def find_binary_operands(args: Args, kwargs: Kwargs) -> Operands | None:
    """Find the operands, wherever the call puts them; None for an unknown way of calling."""
    sides = [*args, *(kwargs[name] for name in ("input", "self", "other") if name in kwargs)]
    return Operands(sides[0], sides[1], kwargs.get("alpha", 1)) if len(sides) == 2 else None


def is_vector_over_features(value: Output, stream: torch.Tensor) -> bool:
    """Whether it is a vector with a number per feature of the stream, in the last axis or in axis 1 of a map."""
    if not isinstance(value, torch.Tensor) or value.numel() < 2 or not value.is_floating_point():
        return False
    axis = value.ndim - 1 if value.shape[-1] == value.numel() else value.ndim - 3
    if axis < 0 or value.shape[axis] != value.numel():
        return False
    place = axis - value.ndim + stream.ndim
    return place > 0 and stream.shape[place] == value.numel()


def is_scalar_factor(value: object) -> bool:
    """Whether it is a number, or a tensor with one: a factor that keeps the direction of the stream."""
    return isinstance(value, int | float) or (
        isinstance(value, torch.Tensor) and value.numel() == 1
    )
