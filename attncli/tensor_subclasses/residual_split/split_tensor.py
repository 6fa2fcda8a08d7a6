"""A tensor X = 1c^T + V that replaces the stream in a model's own code.

c [token axis of size 1] is what all tokens share, V how they differ; each has an integer exponent of its own, so a
residual of 10^-1000 next to a common row of order one keeps all its digits. torch hands it every function call;
the rules are in one table, and functions without a rule are refused.
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from attncli.errors import BelowResolution, NoExactRule
from attncli.forward_argument_types import Output
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts, SplitState
from attncli.maths.common_row_arithmetic.softmax_attention import RESOLVED_BITS
from attncli.tensor_subclasses.torch_function_rules import (
    StreamTensor,
    Table,
    find_running_model_code_line,
    make_torch_function_rule_decorator,
)

RULES: Table = {}
rule = make_torch_function_rule_decorator(RULES)

WHAT_TO_DO = (
    "leave `exact` out, and residuals are found by subtraction, as far as float64 knows them"
)


def make_missing_rule_error(what: str, where: str = "") -> NoExactRule:
    """The error of this package for a function without a rule: its name, the line of the model, and what to do instead."""
    return NoExactRule(
        f"exact residuals have no rule for {what} ({where or find_running_model_code_line()}): {WHAT_TO_DO}."
    )


@dataclass(eq=False, slots=True)
class DeferredParts:
    """c and V, computed when they are needed: what is dropped of a model's block costs nothing."""

    compute: Callable[[], SplitParts] | None
    computed: SplitParts | None = None

    def compute_split_parts_once(self) -> SplitParts:
        if self.computed is None:
            assert self.compute is not None
            self.computed = self.compute()
            self.compute = None  # and what it was computed from
        return self.computed


class SplitNumbers:
    """The parts of a split tensor. Aliases share them, so that all of them see a change in place."""

    __slots__ = ("__weakref__", "memory", "parts")

    def __init__(self, parts: DeferredParts, memory: "SharedMemory | None") -> None:
        self.parts = parts
        self.memory = memory or SharedMemory()
        self.memory.holders.append(weakref.ref(self))


@dataclass(eq=False, slots=True)
class SharedMemory:
    """The memory that torch would share between a tensor and its views."""

    holders: list[weakref.ref[SplitNumbers]] = field(default_factory=list)

    def is_memory_shared(self, numbers: SplitNumbers) -> bool:
        """Whether any other tensor still refers to it, and would have to see a change."""
        return any(
            found is not None and found is not numbers for found in (h() for h in self.holders)
        )


class SplitTensor(StreamTensor):
    """1c^T + V along one token axis; the rest of its shape is as in the model."""

    rules = RULES
    numbers: SplitNumbers
    axis: int
    """The token axis."""

    @staticmethod
    def __new__(
        cls,
        common: ScaledArray,
        varying: ScaledArray,
        axis: int,
        view_of: "SplitTensor | None" = None,
    ) -> "SplitTensor":
        memory = None if view_of is None else view_of.numbers.memory
        known = DeferredParts(None, SplitParts(common, varying))
        return cls.from_numbers(SplitNumbers(known, memory), axis, varying.mantissa.shape)

    @classmethod
    def from_numbers(cls, numbers: SplitNumbers, axis: int, shape: Sequence[int]) -> "SplitTensor":
        made = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=torch.float64)
        made.numbers, made.axis = numbers, axis
        return made

    @property
    def common(self) -> ScaledArray:
        return self.numbers.parts.compute_split_parts_once().common

    @property
    def varying(self) -> ScaledArray:
        return self.numbers.parts.compute_split_parts_once().varying

    @classmethod
    def make_unsupported_function_error(cls, what: str) -> NoExactRule:
        return make_missing_rule_error(f"{what} of the stream")

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"SplitTensor({tuple(self.shape)}, token axis {self.axis})"

    def to_plain_tensor(self) -> torch.Tensor:
        """The plain numbers, where V may vanish against c."""
        return torch.from_numpy(np.ascontiguousarray((self.common + self.varying).value()))

    def to_split_state(self) -> SplitState:
        """The state that metrics measure; the token axis is the last but one."""
        width = self.shape[-1]
        common = self.common.apply_layout_change(np.ravel)
        varying = self.varying.apply_layout_change(lambda each: each.reshape(-1, width))
        return SplitState(common, varying, plain=False)

    def overwrite_with_result(self, result: Output, name: str) -> "SplitTensor":
        """Take over a result's numbers, as a function that changes its argument in place does."""
        if (
            not isinstance(result, SplitTensor)
            or result.shape != self.shape
            or result.axis != self.axis
        ):
            raise make_missing_rule_error(
                f"{name}, which changes the stream in place to another layout,"
            )
        if self.numbers.memory.is_memory_shared(self.numbers):
            raise make_missing_rule_error(
                f"{name}, which changes in place what other views of the stream look at,"
            )
        self.numbers.parts = result.numbers.parts
        torch.autograd.graph.increment_version(self)
        return self


def make_lazy_split_tensor(
    function: Callable[..., SplitParts],
    shape: Sequence[int],
    axis: int,
    *operands: SplitTensor,
    view: bool = False,
) -> SplitTensor:
    """A tensor with the parts that the function finds from the operands' as they are now, once they are needed.

    `view`: it shares the first one's memory.
    """
    sources = [operand.numbers.parts for operand in operands]  # and no tensor: it would look shared
    deferred = DeferredParts(
        lambda: function(*(source.compute_split_parts_once() for source in sources))
    )
    memory = operands[0].numbers.memory if view else None
    return SplitTensor.from_numbers(SplitNumbers(deferred, memory), axis, shape)


def centre_varying_part(common: ScaledArray, varying: ScaledArray, axis: int) -> SplitTensor:
    return SplitTensor(*centre_split_parts(common, varying, axis), axis)


def centre_split_parts(common: ScaledArray, varying: ScaledArray, axis: int) -> SplitParts:
    """Move the mean of V over tokens to c, so that V is the residual to the token mean.

    Where that leaves next to nothing of V, rounding has lost the differences between tokens.
    """
    mean = varying.mantissa.mean(axis=axis, keepdims=True)
    rest = varying.map_linearly(lambda each: each - mean)
    if not varying.is_zero() and (
        rest.is_zero() or rest.exponent < varying.exponent - RESOLVED_BITS
    ):
        raise BelowResolution("what all tokens share drowns what sets them apart.")
    return SplitParts(common + make_scaled_array(mean, varying.exponent), rest)


def map_split_parts_linearly(
    x: SplitTensor, linear: Callable[[Array], Array], axis: int
) -> SplitTensor:
    """A linear function of each token's numbers, of c and V alike."""
    return SplitTensor(x.common.map_linearly(linear), x.varying.map_linearly(linear), axis)


def make_split_tensor_from_states(states: torch.Tensor, axis: int) -> SplitTensor:
    """Split plain numbers."""
    array = states.detach().to(torch.float64).numpy()
    axis %= array.ndim
    shape = [1 if index == axis else size for index, size in enumerate(array.shape)]
    return centre_varying_part(make_scaled_array(np.zeros(shape)), make_scaled_array(array), axis)


def convert_split_to_plain(value: Output) -> Output:
    """Plain numbers of a split tensor; anything else unchanged."""
    return value.to_plain_tensor() if isinstance(value, SplitTensor) else value
