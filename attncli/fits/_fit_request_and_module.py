"""Requests and results of fits."""

import math
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attncli.errors import UsageError, quote_parameter_name, require_known_names
from attncli.maths.dtype_rounding import DTYPES, Floats, round_to_dtype

SMALLEST = 1e-100
"""The smallest tolerance: squares of smaller numbers, which the theorem uses, underflow."""
MOST_WIDTH = 1_000_000
"""The largest width, far above the paper's bounds; searches in wider ranges would not end."""


@dataclass(frozen=True, slots=True)
class FitRequest:
    """How wide the module may be, and how exactly it must reproduce the pattern after rounding."""

    d: int
    """Query and key width."""
    causal: bool = False
    ratio_error: float = 0.2
    """ε2: in-row ratios of nonzero weights within a factor 1 + ε2."""
    off_support: float = 0.2
    """ε1: a weight off the support is at most ε1 times the smallest on it, in the same row."""
    total_variation: float = 0.01
    """Largest ½ Σ_j |M_ij - A_ij| of a row."""
    logit_budget: float = math.inf
    """Largest |logit| allowed."""
    dtype: str = "float64"
    """The dtype in which the finished module is evaluated."""
    effort: int = 2
    """How long searches go on before they give up, 1 … 4."""

    def __post_init__(self) -> None:
        for name in ("ratio_error", "off_support", "total_variation"):
            if not SMALLEST <= getattr(self, name) <= 1.0 / SMALLEST:
                raise UsageError(
                    f"{quote_parameter_name(name)} must be a number from {SMALLEST:g} to {1.0 / SMALLEST:g}, not {getattr(self, name)}."
                )
        if not self.logit_budget > 0.0:
            raise UsageError(f"`logit_budget` must be a positive number, not {self.logit_budget}.")
        require_known_names(quote_parameter_name("dtype"), [self.dtype], DTYPES)
        if not 1 <= self.d <= MOST_WIDTH:
            raise UsageError(f"`width` must be from 1 to {MOST_WIDTH:,}, not {self.d}.")
        if not 1 <= self.effort <= 4:
            raise UsageError(f"`effort` must be 1, 2, 3 or 4, not {self.effort}.")

    def describe_fit_request(self) -> dict[str, str | int | float | None]:
        """The request for reports: no budget is null, since JSON knows no infinity."""
        budget = self.logit_budget if math.isfinite(self.logit_budget) else None
        return asdict(self) | {"logit_budget": budget}

    @property
    def log_ratio_tolerance(self) -> float:
        """How much the errors of two logits on the support may differ."""
        return math.log1p(self.ratio_error)

    @property
    def log_off_support_tolerance(self) -> float:
        """log of the off-support mass, in units of the mass on it, that the total variation allows."""
        if self.total_variation >= 1.0:
            return math.inf
        return math.log(self.total_variation / (1.0 - self.total_variation))


@dataclass(frozen=True)
class FittedModule:
    """softmax(x w_q w_k^T x^T), no further scale: w_q and w_k depend on d alone, only x on the pattern."""

    x: Floats
    """[token, 2 d]: queries and keys concatenated, rounded to `dtype` (bfloat16 is stored as float32)."""
    dtype: str
    causal: bool
    start: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    """[2, token, d]: where a search was before it looked for this module, from which one with smaller logits is looked for."""

    @cached_property
    def d(self) -> int:
        """Query and key width."""
        return int(self.x.shape[1]) // 2

    @property
    def w_q(self) -> Floats:
        """[I_d; 0]: exact in every dtype."""
        return np.eye(2 * self.d, self.d, dtype=self.x.dtype)

    @property
    def w_k(self) -> Floats:
        """[0; I_d]."""
        return np.eye(2 * self.d, self.d, -self.d, dtype=self.x.dtype)

    def pad_module_to_width(self, d: int) -> "FittedModule":
        """The same map at a larger width: the further features are zero."""
        queries, keys = self.x[:, : self.d], self.x[:, self.d :]
        return make_fitted_module(
            pad_columns_with_zeros(queries, d),
            pad_columns_with_zeros(keys, d),
            self.dtype,
            self.causal,
        )


def make_fitted_module(queries: Floats, keys: Floats, dtype: str, causal: bool) -> FittedModule:
    """The module with these queries and keys [token, d], rounded."""
    return FittedModule(
        round_to_dtype(np.concatenate([queries, keys], axis=1), dtype), dtype, causal
    )


def pad_columns_with_zeros(array: Floats, d: int) -> Floats:
    """Zero columns up to width d."""
    return np.pad(array, ((0, 0), (0, d - array.shape[1])))


@dataclass(frozen=True, slots=True)
class MethodNotApplicable:
    """Why a method has no module at these sizes; other methods may, unless impossibility is proved."""

    reason: str
    proved: bool = False
    """Whether no module of this width exists."""


Fit = FittedModule | MethodNotApplicable
