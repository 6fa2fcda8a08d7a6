"""Tensors that replace the residual stream in a model's own code, with a rule of their own for every torch function.

torch hands every function call to such a tensor. The rules of each class are in one table, and a function without a rule
is refused by its name and the line of model code, so nothing is computed that is not understood.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F

from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Kwargs, Output

Rule = TypeVar("Rule", bound=Callable[..., Any])
Table = dict[Any, Callable[..., Any]]

Operand = torch.Tensor | float
"""What sums and products have on either side: a tensor, of ours or of torch, or a number."""

KNOWN_WITHOUT_NUMBERS = {
    "__get__", "__len__", "dim", "element_size", "get_device", "is_complex", "is_contiguous", "is_floating_point",
    "is_inference", "ndimension", "nelement", "numel", "requires_grad_", "size", "stride",
}  # fmt: skip
"""Functions and properties that only read sizes and kinds."""


class StreamTensor(torch.Tensor):
    """A tensor without storage; its subclasses define what represents its numbers."""

    rules: ClassVar[Table]
    """What this class does under each torch function."""

    @classmethod
    def make_unsupported_function_error(cls, what: str) -> InputError:
        """The error for a function without a rule."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(
        cls, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        if func in cls.rules:
            return cls.rules[func](*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        if name in KNOWN_WITHOUT_NUMBERS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise cls.make_unsupported_function_error(name)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        if str(func) in ("aten.detach.default", "aten.alias.default"):
            return args[0]
        raise cls.make_unsupported_function_error(str(func))


def make_torch_function_rule_decorator(table: Table) -> Callable[..., Callable[[Rule], Rule]]:
    """A decorator that registers rules in a table."""

    def register_rule_for_functions(*functions: Function) -> Callable[[Rule], Rule]:
        def add_rule_to_table(function: Rule) -> Rule:
            table.update(dict.fromkeys(functions, function))
            return function

        return add_rule_to_table

    return register_rule_for_functions


def register_norm_layer_rules(
    rule: Callable[..., Callable[[Function], Function]], norm: Callable[..., torch.Tensor]
) -> None:
    """Register layer and RMS norms, by a function of x, ε, whether it centres, gain and bias."""

    def require_norm_over_last_axis(x: StreamTensor, normalized_shape: Sequence[int]) -> None:
        if len(normalized_shape) != 1:
            raise x.make_unsupported_function_error("a norm over several axes")

    @rule(F.layer_norm, torch.layer_norm)
    def layer_norm(
        x: StreamTensor,
        normalized_shape: Sequence[int],
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        eps: float = 1e-5,
        *_: object,
    ) -> torch.Tensor:
        require_norm_over_last_axis(x, normalized_shape)
        return norm(x, eps, True, weight, bias)

    @rule(F.rms_norm, torch.rms_norm)
    def rms_norm(
        x: StreamTensor,
        normalized_shape: Sequence[int],
        weight: torch.Tensor | None = None,
        eps: float | None = None,
    ) -> torch.Tensor:
        require_norm_over_last_axis(x, normalized_shape)
        return norm(x, torch.finfo(x.dtype).eps if eps is None else eps, False, weight, None)


def find_running_model_code_line() -> str:
    """The line of model code that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "transformers" not in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]} line {frame.f_lineno}"
