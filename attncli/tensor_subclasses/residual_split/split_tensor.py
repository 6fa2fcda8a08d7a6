"""A tensor X = 1c^T + V that replaces the stream in a model's own code.

c [token axis of size 1] is what all tokens share, V how they differ; each has an integer exponent of its own, so a
residual of 10^-1000 next to a common row of order one keeps all its digits. torch hands it every function call;
the rules are in one table, and functions without a rule are refused.
"""

import weakref
from typing import Any

import numpy as np
import torch

from attncli.errors import NoRule, Unresolved
from attncli.maths.residuals.common_row_plus_deviation import SplitState
from attncli.maths.residuals.scaled_arrays import ScaledArray, add_scaled_arrays, make_scaled_array
from attncli.maths.residuals.softmax import RESOLVED_BITS
from attncli.tensor_subclasses.dispatch import (
    StreamTensor,
    Table,
    find_calling_line,
    register_rules_in,
)

RULES: Table = {}
rule = register_rules_in(RULES)

WHAT_TO_DO = (
    "leave `exact` out, and residuals are found by subtraction, as far as float64 knows them"
)


def no_rule_error(what: str, where: str = "") -> NoRule:
    """The error of this package for a function without a rule: its name, the line of the model, and what to do instead."""
    return NoRule(
        f"exact residuals have no rule for {what} ({where or find_calling_line()}): {WHAT_TO_DO}."
    )


class SplitNumbers:
    """The parts of a split tensor. Aliases share them, so that all of them see a change in place."""

    __slots__ = ("__weakref__", "common", "memory", "varying")

    def __init__(
        self, common: ScaledArray, varying: ScaledArray, memory: "SharedMemory | None"
    ) -> None:
        self.common = common
        self.varying = varying
        self.memory = memory or SharedMemory()
        self.memory.holders.append(weakref.ref(self))


class SharedMemory:
    """The memory that torch would share between a tensor and its views."""

    __slots__ = ("holders",)

    def __init__(self) -> None:
        self.holders: list[weakref.ref[SplitNumbers]] = []

    def is_shared(self, numbers: SplitNumbers) -> bool:
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
        return cls.of(SplitNumbers(common, varying, memory), axis)

    @classmethod
    def of(cls, numbers: SplitNumbers, axis: int) -> "SplitTensor":
        shape = numbers.varying.mantissa.shape
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float64)
        made.numbers, made.axis = numbers, axis
        return made

    @property
    def common(self) -> ScaledArray:
        return self.numbers.common

    @property
    def varying(self) -> ScaledArray:
        return self.numbers.varying

    @classmethod
    def refusal(cls, what: str) -> NoRule:
        return no_rule_error(f"{what} of the stream")

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"SplitTensor({tuple(self.shape)}, token axis {self.axis})"

    def plain(self) -> torch.Tensor:
        """The plain numbers, where V may vanish against c."""
        return torch.from_numpy(
            np.ascontiguousarray(add_scaled_arrays(self.common, self.varying).value())
        )

    def state(self) -> SplitState:
        """The state that metrics measure; the token axis is the last but one."""
        width = self.shape[-1]
        common = ScaledArray(self.common.mantissa.reshape(width), self.common.exponent)
        varying = ScaledArray(self.varying.mantissa.reshape(-1, width), self.varying.exponent)
        return SplitState(common, varying, plain=False)

    def become(self, result: Any, name: str) -> "SplitTensor":
        """Take over a result's numbers, as a function that changes its argument in place does."""
        if (
            not isinstance(result, SplitTensor)
            or result.shape != self.shape
            or result.axis != self.axis
        ):
            raise no_rule_error(f"{name}, which changes the stream in place to another layout,")
        if self.numbers.memory.is_shared(self.numbers):
            raise no_rule_error(
                f"{name}, which changes in place what other views of the stream look at,"
            )
        self.numbers.common, self.numbers.varying = result.common, result.varying
        torch.autograd.graph.increment_version(self)
        return self


def centre_split(common: ScaledArray, varying: ScaledArray, axis: int) -> SplitTensor:
    """Move the mean of V over tokens to c, so that V is the residual to the token mean.

    Where that leaves next to nothing of V, rounding has lost the differences between tokens.
    """
    mean = varying.mantissa.mean(axis=axis, keepdims=True)
    rest = make_scaled_array(varying.mantissa - mean, varying.exponent)
    if not varying.is_zero() and (
        rest.is_zero() or rest.exponent < varying.exponent - RESOLVED_BITS
    ):
        raise Unresolved("what all tokens share drowns what sets them apart.")
    return SplitTensor(
        add_scaled_arrays(common, make_scaled_array(mean, varying.exponent)), rest, axis
    )


def split_states(states: torch.Tensor, axis: int) -> SplitTensor:
    """Split plain numbers."""
    array = states.detach().to(torch.float64).numpy()
    axis %= array.ndim
    shape = [1 if index == axis else size for index, size in enumerate(array.shape)]
    return centre_split(make_scaled_array(np.zeros(shape)), make_scaled_array(array), axis)


def to_plain(value: Any) -> Any:
    """Plain numbers of a split tensor; anything else unchanged."""
    return value.plain() if isinstance(value, SplitTensor) else value
