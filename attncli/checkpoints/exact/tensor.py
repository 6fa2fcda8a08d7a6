"""A tensor X = 1c^T + V that goes through a model's own code in place of the stream.

c [token axis of size 1] is what all tokens share, V what sets them apart; each has an integer exponent of its own, so a
residual of 10^-1000 beside a common row of order one keeps all its digits. torch asks the tensor what to do with every
function; the rules are kept in one table, and what is not in it is refused.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from attncli.errors import InputError, Unresolved
from attncli.maths.scaled import Array, Scaled, plus, scaled
from attncli.maths.softmax import RESOLVED_BITS
from attncli.maths.split import Split

Rule = TypeVar("Rule", bound=Callable[..., Any])

RULES: dict[Any, Callable[..., Any]] = {}
"""What a split tensor does under a torch function; filled by `rule`."""

KNOWN_WITHOUT_NUMBERS = {
    "__get__", "dim", "element_size", "get_device", "is_complex", "is_contiguous", "is_floating_point", "ndimension",
    "is_inference", "nelement", "numel", "requires_grad_", "size", "stride", "__len__",
}  # fmt: skip
"""Functions and properties that ask for sizes and kinds alone."""


class SplitTensor(torch.Tensor):
    """1c^T + V along one token axis; the rest of its shape is as in the model."""

    common: Scaled
    varying: Scaled
    axis: int
    """The token axis."""

    @staticmethod
    def __new__(cls, common: Scaled, varying: Scaled, axis: int) -> "SplitTensor":
        shape = varying.mantissa.shape
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float64)
        made.common, made.varying, made.axis = common, varying, axis
        return made

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in RULES:
            return RULES[func](*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        if name in KNOWN_WITHOUT_NUMBERS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise InputError(
            f"--exact has no rule for {name}, which {caller()} uses: leave --exact out."
        )

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if str(func) in ("aten.detach.default", "aten.alias.default"):
            return args[0]
        raise InputError(
            f"--exact has no rule for {func}, which {caller()} uses: leave --exact out."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"SplitTensor({tuple(self.shape)}, token axis {self.axis})"

    def plain(self) -> torch.Tensor:
        """The numbers themselves, where V may vanish beside c."""
        return torch.from_numpy(np.ascontiguousarray(plus(self.common, self.varying).value()))

    def state(self) -> Split:
        """As what the metrics measure; the token axis is the last but one."""
        width = self.shape[-1]
        common = Scaled(self.common.mantissa.reshape(width), self.common.exponent)
        varying = Scaled(self.varying.mantissa.reshape(-1, width), self.varying.exponent)
        return Split(common, varying, plain=False)


def rule(*functions: Any) -> Callable[[Rule], Rule]:
    """Enters a rule into the table."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(functions, function))
        return function

    return enter


def centred(common: Scaled, varying: Scaled, axis: int) -> SplitTensor:
    """With the mean of V over tokens moved to c, so that V is the residual to the token mean.

    Where next to nothing of V is left by that, rounding has swallowed what set the tokens apart.
    """
    mean = varying.mantissa.mean(axis=axis, keepdims=True)
    rest = scaled(varying.mantissa - mean, varying.exponent)
    if not varying.is_zero() and (
        rest.is_zero() or rest.exponent < varying.exponent - RESOLVED_BITS
    ):
        raise Unresolved("what all tokens share drowns what sets them apart.")
    return SplitTensor(plus(common, scaled(mean, varying.exponent)), rest, axis)


def split_of(states: torch.Tensor, axis: int) -> SplitTensor:
    """From plain numbers."""
    array = states.detach().to(torch.float64).numpy()
    shape = [1 if index == axis else size for index, size in enumerate(array.shape)]
    return centred(scaled(np.zeros(shape)), scaled(array), axis)


def along_features(x: SplitTensor) -> tuple[Array, Array]:
    """The mantissas of c [1, feature] and V [token, feature], where every other axis has size 1."""
    width = x.shape[-1]
    return x.common.mantissa.reshape(1, width), x.varying.mantissa.reshape(-1, width)


def caller() -> str:
    """The line of model code that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "transformers" not in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]} line {frame.f_lineno}"
