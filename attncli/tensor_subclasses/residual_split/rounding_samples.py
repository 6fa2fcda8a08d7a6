"""A second sample of the rounding in exact arithmetic: the last bits of each stream are moved as it enters a block.

A separate common row keeps all digits of a residual however small, but each step rounds their last bits as any arithmetic
does. Where blocks amplify small differences, as deep stacks of MLPs without skips can, those bits become the first digits
of the result: two runs that differ in them alone show which digits are known.
"""

import numpy as np

from attncli.maths.residuals.scaled_arrays import ScaledArray
from attncli.tensor_subclasses.residual_split.split_tensor import SplitTensor, centre_varying_part


class LastBitPerturbation:
    """Moves the last bits of streams; the same ones in every run of a command."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def __call__(self, stream: SplitTensor) -> SplitTensor:
        return centre_varying_part(
            self.perturb_part(stream.common), self.perturb_part(stream.varying), stream.axis
        )

    def perturb_part(self, numbers: ScaledArray) -> ScaledArray:
        """Leave each number, or move it one step nearer to 0."""
        half = np.finfo(np.float64).eps / 2
        return numbers * (1 - half * self.generator.integers(0, 2, numbers.mantissa.shape))
