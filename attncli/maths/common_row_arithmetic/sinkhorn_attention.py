"""(P - 11^T/n) V for doubly normalised attention, exact however close P is to uniform.

Sinkhorn scaling normalises rows, then `rounds` ≥ 1 times columns and rows, so that rows always sum to one. Terms of the
logits that are constant along a row or a column drop out; with L = log(n P) only the deviation E is left:

    L_ij = E_ij - f_i - g_j,    f_i = log mean_j e^(E_ij - g_j),    g_j = log mean_i e^(E_ij - f_i)

where the very first f_i is the softmax normaliser, weighted with the reference row π instead of 1/n.
Then P - 1/n = expm1(L)/n.
"""

from collections.abc import Callable

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    NEGLIGIBLE,
    Array,
    ScaledArray,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row import (
    Logits,
    bound_largest_logit_deviation,
    compute_deviation_of_logits,
    compute_reference_row_logits,
)
from attncli.maths.common_row_arithmetic.softmax_attention import log_softmax

EXPM1_BEST = 1.0
"""Below this, log mean e^x is taken as log1p(mean expm1(x)), which keeps the digits of small x."""


def compute_sinkhorn_attention_output(
    logits: Logits, values: ScaledArray, rounds: int
) -> ScaledArray:
    """P V [head, query, value] for values [head, key, value]."""
    return apply_doubly_normalised_attention(np.exp, logits, values, rounds)


def compute_sinkhorn_attention_deviation(
    logits: Logits, values: ScaledArray, rounds: int
) -> ScaledArray:
    """(P - 11^T/n) V"""
    if bound_largest_logit_deviation(logits) < NEGLIGIBLE and logits.bias is None:
        return compute_first_order_sinkhorn_deviation(logits, values)
    return apply_doubly_normalised_attention(np.expm1, logits, values, rounds)


def apply_doubly_normalised_attention(
    weight: Callable[[Array], Array], logits: Logits, values: ScaledArray, rounds: int
) -> ScaledArray:
    """weight(L)/n V, one head at a time."""
    heads, tokens, _ = values.mantissa.shape
    result = np.empty(values.mantissa.shape)
    log_weights = log_softmax(compute_reference_row_logits(logits))
    for head in range(heads):
        block = compute_deviation_of_logits(logits, slice(head, head + 1), slice(None))[0]
        logs = compute_log_doubly_normalised_weights(block, log_weights[head], rounds)
        result[head] = weight(logs) @ values.mantissa[head] / tokens
    return make_scaled_array(result, values.exponent)


def compute_first_order_sinkhorn_deviation(logits: Logits, values: ScaledArray) -> ScaledArray:
    """First order in E = Q K^T: one round subtracts row and column means, and further rounds change nothing."""
    queries, keys = (
        side.mantissa - side.mantissa.mean(axis=1, keepdims=True)
        for side in (logits.queries, logits.keys)
    )
    result = queries @ (keys.swapaxes(1, 2) @ values.mantissa) / keys.shape[1]
    return make_scaled_array(
        result, logits.queries.exponent + logits.keys.exponent + values.exponent
    )


def compute_log_doubly_normalised_weights(block: Array, log_weights: Array, rounds: int) -> Array:
    """log(n P) [query, key] from E and the log of the first normaliser's weights.

    Every step works on the normalised logs themselves: entries near P = 1/n stay of order one however large the
    logits were, so nothing is lost to their rounding.
    """
    if np.abs(block).max() < EXPM1_BEST:
        logs: Array = block - np.log1p(np.expm1(block) @ np.exp(log_weights))[:, None]
    else:  # from log P instead of log P - log π: the columns, normalised next, do not care
        logs = normalise_row_means(block + log_weights)
    for _ in range(rounds):
        logs = normalise_row_means(normalise_row_means(logs.T).T)
    return logs


def normalise_row_means(logs: Array) -> Array:
    """Logs shifted row by row so that every row of e^logs has mean 1."""
    if np.abs(logs).max() < EXPM1_BEST:
        result: Array = logs - np.log1p(np.expm1(logs).mean(axis=1, keepdims=True))
    else:
        result = logs - logs.max(axis=1, keepdims=True)
        result -= np.log(np.exp(result).mean(axis=1, keepdims=True))
    return result
