"""Verify a finished module independently, block of rows by block of rows.

The module's rounded x, w_q and w_k are multiplied again in the dtype in which it will be used, and compared with the
stored target. bfloat16 products sum exact products in float32 and round the result, the softmax then runs in float32, as
eager attention does. No token × token array is made: memory is 32 MB in addition to x.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import FitRequest
from attncli.maths.dtype_rounding import Floats, matmul_in_dtype, round_to_dtype
from attncli.progress import Progress, ignore_progress

BLOCK = 1 << 22
"""Logits in memory at once."""


@runtime_checkable
class Module(Protocol):
    """What is verified: a fit, or a module from a file."""

    @property
    def w_q(self) -> Floats: ...
    @property
    def w_k(self) -> Floats: ...
    @property
    def x(self) -> Floats: ...
    @property
    def dtype(self) -> str: ...
    @property
    def causal(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class FitEvidence:
    """What the finished module does, measured. NaN where its logits left the dtype's range; NaN never passes."""

    ratio_error: float
    """Definition (ii): the largest factor between in-row ratios of M and A on the support, minus 1."""
    off_support_ratio: float
    """Definition (i): the largest M_ij1 / M_ij2 with A_ij1 = 0 < A_ij2."""
    total_variation: float
    """The largest ½ Σ_j |M_ij - A_ij| of a row."""
    total_variation_mean: float
    logit_scale: float
    """The largest |logit| of a visible pair."""
    worst_row: int
    """The row with the largest total variation."""

    def meets_fit_request(self, request: FitRequest) -> bool:
        return (
            self.ratio_error <= request.ratio_error
            and self.off_support_ratio <= request.off_support
            and self.total_variation <= request.total_variation
            and self.logit_scale <= request.logit_budget
        )

    def count_significant_logit_bits(self, ratio_error: float) -> float:
        """log2(2 · logit scale / ln(1 + ε2)): significant bits that keep logits to half the tolerance (our own definition)."""
        if self.logit_scale == 0.0:
            return 0.0
        return max(0.0, math.log2(2.0 * self.logit_scale / math.log1p(ratio_error)))


def measure_fit(
    fit: Module, target: csr_array, progress: Progress = ignore_progress
) -> FitEvidence:
    """Evaluate the module in its dtype and compare every row with the target (rows sum to one)."""
    w_q, w_k, x = (round_to_dtype(part, fit.dtype) for part in (fit.w_q, fit.w_k, fit.x))
    queries, keys = matmul_in_dtype(x, w_q, fit.dtype), matmul_in_dtype(x, w_k, fit.dtype)
    return compare_module_with_target(queries, keys, target, fit.dtype, fit.causal, 1.0, progress)


def compare_module_with_target(
    queries: Floats,
    keys: Floats,
    target: csr_array,
    dtype: str,
    causal: bool,
    scale: float,
    progress: Progress = ignore_progress,
) -> FitEvidence:
    """softmax(scale · queries keys^T), computed in the dtype whose values both hold, against the target."""
    length = len(queries)
    parts = []
    for rows in iter_blocks_of_map_rows(length):
        logits = matmul_in_dtype(queries[rows], keys.T, dtype)
        if scale != 1.0:
            logits = round_to_dtype(logits * logits.dtype.type(scale), dtype)
        parts.append(compare_rows_with_target(logits, target[rows], rows.start if causal else None))
        progress(rows.stop, length, "rows")
    with np.errstate(over="ignore"):
        errors = np.concatenate([part.errors for part in parts])
        return FitEvidence(
            ratio_error=float(np.expm1(find_maximum_or_nan(part.spread for part in parts))),
            off_support_ratio=float(np.exp(find_maximum_or_nan(part.leak for part in parts))),
            total_variation=float(errors.max()),
            total_variation_mean=float(errors.mean()),
            logit_scale=find_maximum_or_nan(part.scale for part in parts),
            worst_row=int(errors.argmax()),
        )


def iter_blocks_of_map_rows(length: int) -> Iterator[slice]:
    """Row ranges of at most BLOCK logits."""
    size = max(1, BLOCK // length)
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def find_maximum_or_nan(values: Iterator[float]) -> float:
    """The maximum; NaN if any value is."""
    return float(np.max(np.fromiter(values, dtype=np.float64)))


class RowBlockErrors(NamedTuple):
    """The contribution of a block of rows to the evidence."""

    spread: float
    """Largest difference of log(M / A) on the support of a row."""
    leak: float
    """Largest log(M_off / M_on) of a row."""
    errors: Floats
    """Total variation of every row."""
    scale: float
    """Largest |logit|."""


def compare_rows_with_target(
    logits: Floats, target: csr_array, first_row: int | None
) -> RowBlockErrors:
    """A block of rows against its target; `logits` is overwritten.

    `first_row` is the index of the first row under the causal mask, None without it.
    """
    counts = np.diff(target.indptr)
    starts, row = target.indptr[:-1], np.repeat(np.arange(len(counts)), counts)
    on = logits[row, target.indices]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if first_row is not None:
            mask_future_keys(logits, first_row)
        scale = float(max(logits.max(), -logits.min(where=logits > -np.inf, initial=0.0)))
        if not np.isfinite(on).all() or np.isnan(logits).any() or scale == np.inf:
            return RowBlockErrors(np.nan, np.nan, np.full(len(counts), np.nan), np.nan)
        error = on.astype(np.float64) - np.log(target.data)
        spread = np.maximum.reduceat(error, starts) - np.minimum.reduceat(error, starts)
        logits[row, target.indices] = -np.inf
        off_top = logits.max(axis=1)
        leak = off_top.astype(np.float64) - np.minimum.reduceat(on, starts)
        top = np.maximum(off_top, np.maximum.reduceat(on, starts))
        logits -= top[:, None]
        off = np.exp(logits, out=logits).sum(axis=1)
        weights = np.exp(on - np.repeat(top, counts))
        total = off + np.add.reduceat(weights, starts)
        differences = np.abs(weights / np.repeat(total, counts) - target.data)
        errors = 0.5 * (np.add.reduceat(differences, starts) + off / total)
    return RowBlockErrors(float(spread.max()), float(leak.max()), errors, scale)


def mask_future_keys(logits: Floats, first_row: int) -> None:
    """-inf at the keys ahead of each query."""
    rows, columns = logits.shape
    for start in range(first_row + 1, columns, 1024):  # narrow strips: no mask of the whole block
        strip = np.arange(start, min(start + 1024, columns))
        ahead = strip > np.arange(first_row, first_row + rows)[:, None]
        logits[:, start : start + 1024][ahead] = -np.inf
