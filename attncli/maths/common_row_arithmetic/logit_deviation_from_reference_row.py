"""Attention logits as a reference row plus a deviation, both free of cancellation.

Every query is compared with one reference query that sees all keys, the last one. Softmax ignores what is constant
along a row, so the logits may be written

    logit_ij = a_j + E_ij,      E_ij = q_i · k_j + b_ij      (q_i: query i minus the reference query)

With plain content attention q and k come from what varies between tokens alone, so E is quadratic in it and can be far
below float range: it is never formed as a difference of logits. With rotary positions q_i keeps the rotation of c; with
a relative bias b is of order one; with a mask some keys are invisible: all of these stop E from vanishing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    find_largest_magnitude,
    log2_of_scaled,
)

BLOCK_ELEMENTS = 1 << 17
"""Largest number of logits in memory at once (1 MiB, which stays in the cache), unless one row is longer."""

LARGEST_LOGIT = 1e300


class Logits(NamedTuple):
    """Axes: reference [head, key], queries [head, query, d], keys [head, key, d]; 1/√d is inside the queries."""

    reference: ScaledArray
    queries: ScaledArray
    keys: ScaledArray
    bias: Array | None = None
    """[head, offset], offset = key - query + tokens - 1."""
    bias_in_reference: bool = False
    """Whether the reference row carries the last query's bias, so that E has b_ij - b_(n-1)j."""
    visible: Callable[[slice], NDArray[np.bool_]] | None = None
    """Row slice → boolean [query, key]; None = every key is visible."""


def compute_reference_row_logits(logits: Logits) -> Array:
    """The reference logits a as plain numbers [head, key]."""
    reference = refuse_overflowing_logits(logits.reference.value())
    return reference + find_last_query_bias(logits) if logits.bias_in_reference else reference


def find_last_query_bias(logits: Logits) -> Array:
    """The bias of the last query [head, key], 0 without a bias."""
    if logits.bias is None:
        return np.zeros((1, 1))
    return logits.bias[:, : (logits.bias.shape[1] + 1) // 2]


def compute_deviation_of_logits(logits: Logits, heads: slice, rows: slice) -> Array:
    """E for some heads and rows, as plain numbers; the mask is not applied."""
    exponent = logits.queries.exponent + logits.keys.exponent
    queries = ScaledArray(logits.queries.mantissa[heads, rows], exponent).value()
    with np.errstate(over="ignore", invalid="ignore"):  # refused by in_range
        block = refuse_overflowing_logits(queries @ logits.keys.mantissa[heads].swapaxes(1, 2))
    if logits.bias is not None:
        block += view_position_bias_rows(logits.bias[heads], rows)
        if logits.bias_in_reference:
            block -= find_last_query_bias(logits)[heads, None, :]
    return block


def view_position_bias_rows(bias: Array, rows: slice) -> Array:
    """Rows of the Toeplitz matrices b_ij = bias[j - i + tokens - 1], as a view [head, query, key]."""
    tokens = (bias.shape[1] + 1) // 2
    windows = np.lib.stride_tricks.sliding_window_view(bias, tokens, axis=1)
    return windows[:, tokens - 1 - np.arange(tokens)[rows]]


def bound_largest_logit_deviation(logits: Logits) -> float:
    """log2 of an upper bound on |E| over visible keys (-inf if E is zero)."""
    lengths = [
        float(np.sqrt(np.square(side.mantissa).sum(-1).max()))
        for side in (logits.queries, logits.keys)
    ]
    exponent = logits.queries.exponent + logits.keys.exponent
    content = log2_of_scaled(lengths[0] * lengths[1], exponent)
    bias = 0.0 if logits.bias is None else float(np.abs(logits.bias).max())
    return max(content, log2_of_scaled(bias, 0)) + (1.0 if bias else 0.0)


def iter_logit_blocks(heads: int, queries: int, keys: int) -> Iterator[tuple[slice, slice]]:
    """Head and row slices that keep a block of logits below `BLOCK_ELEMENTS`."""
    if heads * queries * keys <= BLOCK_ELEMENTS:
        yield slice(0, heads), slice(0, queries)
        return
    rows = max(1, BLOCK_ELEMENTS // keys)
    for head in range(heads):
        for start in range(0, queries, rows):
            yield slice(head, head + 1), slice(start, min(start + rows, queries))


def refuse_overflowing_logits(values: Array) -> Array:
    if not find_largest_magnitude(values) < LARGEST_LOGIT:
        raise InputError(
            "attention logits leave float range (above 1e300): lower `init_scale` or add a `norm`."
        )
    return values
