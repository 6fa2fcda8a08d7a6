"""The random numbers and the precision with which a model runs again: a fixed seed, and float64 that stays float64.

Model code casts to float32 inside: RMSNorm, the softmax of most decoders, rotary angles. In a float64 model those casts
lower the requested precision, and a pure-attention Llama would stop at 5e-8. Here they are refused:
every cast to a shorter float type leads to float64, and so does every tensor that is made in one.

What was rounded to float32 before stays: weights, and the constants that a model computes when it is built and keeps
as buffers, such as the rotary frequencies (`inv_freq`). They are the model's numbers; all that is computed from them
is float64.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.forward_argument_types import Args, Function, Kwargs, Output

SHORTER = frozenset({torch.float32, torch.float16, torch.bfloat16})
CASTS = frozenset({torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16})
T = TypeVar("T")

WITHOUT_FLOAT64 = frozenset({"mps"})
"""Types of device: what is added up in float64 is moved from them to the CPU."""


@contextmanager
def fix_random_seed() -> Iterator[None]:
    """Fix the random seed within, and restore the caller's generator."""
    with torch.random.fork_rng():
        if torch.accelerator.is_available():
            torch.manual_seed(0)
        else:  # as torch.manual_seed, but without recording a stack trace for lazy devices on every call
            torch.default_generator.manual_seed(0)
        yield


def move_to_float64_device(value: T) -> T:
    """A tensor, or named tensors, on a device that has float64."""
    if isinstance(value, Tensor):
        return cast(T, value.cpu()) if value.device.type in WITHOUT_FLOAT64 else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(move_to_float64_device, value))
    return value


def preserve_float64_precision(model: nn.Module) -> AbstractContextManager[None]:
    """Within, a float64 model stays in float64; models of other dtypes run unchanged."""
    double = next((each.dtype for each in model.parameters()), None) == torch.float64
    return force_float64() if double else nullcontext()


@contextmanager
def force_float64() -> Iterator[None]:
    """Within, floating tensors are created and kept in float64; the model and its inputs must be float64 already."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Float64Mode():
            yield
    finally:
        torch.set_default_dtype(before)


class Float64Mode(TorchFunctionMode):
    """Replaces every shorter float dtype in a function's arguments by float64."""

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        kwargs = kwargs or {}
        if func in CASTS:
            func = torch.Tensor.double
        elif func is not torch.Tensor.view:  # `view` with a dtype reinterprets the same bits
            args = tuple(map(promote_floats_to_float64, args))
            kwargs = {name: promote_floats_to_float64(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)


def promote_floats_to_float64(value: Output) -> Output:
    """float64 instead of a shorter float dtype; everything else unchanged."""
    return torch.float64 if type(value) is torch.dtype and value in SHORTER else value
