"""A state [token, feature], with intermediate results that several metrics share."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from attncli.metrics._median import median

if TYPE_CHECKING:
    from torch import Tensor

MASSIVE = 100.0
RATIO = 1000.0
"""An activation is massive above 100 and above 1000 times the median (Sun, Chen, Kolter & Liu, 2024)."""


@dataclass(eq=False)
class ActivationState:
    """The residual stream before the first block or after one of them."""

    values: "Tensor"

    @cached_property
    def magnitudes(self) -> "Tensor":
        """[token, feature]: |x|."""
        return self.values.abs()

    @cached_property
    def largest_magnitude(self) -> float:
        return float(self.magnitudes.max())

    @cached_property
    def median_magnitude(self) -> float:
        return float(median(self.magnitudes.flatten().double()))

    @cached_property
    def massive_tokens(self) -> "Tensor":
        """[token] bool: tokens that have a massive activation."""
        above = (
            max(MASSIVE, RATIO * self.median_magnitude)
            if self.largest_magnitude > MASSIVE
            else MASSIVE
        )
        return self.magnitudes.amax(dim=-1) > above

    def find_largest_activation(self) -> "ActivationPeak":
        """The largest activation; the median, which takes longest, is only found where it could be massive."""
        token, feature = divmod(int(self.magnitudes.argmax()), self.magnitudes.shape[-1])
        large = self.largest_magnitude > MASSIVE and self.median_magnitude > 0.0
        return ActivationPeak(
            token, feature, self.largest_magnitude / self.median_magnitude if large else None
        )


class ActivationPeak(NamedTuple):
    """Where the largest activation of a state is."""

    token: int
    feature: int
    over_median: float | None
    """How many times the median; None where the activation is not large by itself."""


def compute_one_minus_mean_cosine(values: "Tensor") -> float:
    """1 - cos, cos the mean cosine between two different tokens; nan for fewer than two.

    With unit rows u_i, 1 - cos = Σ_i ‖u_i - ū‖² / (n - 1), which needs no subtraction from 1.
    """
    if len(values) < 2:
        return float("nan")
    own = values.double()
    # all is computed in its memory: new pages take most of the time
    rows = own.clone() if own is values else own
    rows /= rows.norm(dim=-1, keepdim=True)
    rows -= rows.mean(dim=0)
    return float(rows.square_().sum()) / (len(rows) - 1)
