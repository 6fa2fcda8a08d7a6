"""A tensor X = 1c^T + V that goes through a model's own code in place of the stream.

c [token axis of size 1] is what all tokens share, V what sets them apart; each has an integer exponent of its own, so a
residual of 10^-1000 beside a common row of order one keeps all its digits. torch asks the tensor what to do with every
function; the rules are kept in one table, and what is not in it is refused.
"""

from typing import Any

import numpy as np
import torch

from attncli.checkpoints.structure.carried import Carried, Table, caller, entering
from attncli.errors import InputError, Unresolved
from attncli.maths.scaled import Array, Scaled, plus, scaled
from attncli.maths.softmax import RESOLVED_BITS
from attncli.maths.split import Split

RULES: Table = {}
rule = entering(RULES)


class SplitTensor(Carried):
    """1c^T + V along one token axis; the rest of its shape is as in the model."""

    rules = RULES
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
    def refusal(cls, what: str) -> InputError:
        return InputError(
            f"--exact has no rule for {what}, which {caller()} uses: leave --exact out."
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
