"""(P - 11^T/n) V for doubly normalised attention, exact however close P is to uniform.

Sinkhorn scaling normalises rows, then `rounds` ≥ 1 times columns and rows, so that rows always sum to one. Terms of the
logits that are constant along a row or a column drop out; with L = log(n P) only the deviation E is left:

    L_ij = E_ij - f_i - g_j,    f_i = log mean_j e^(E_ij - g_j),    g_j = log mean_i e^(E_ij - f_i)

where the very first f_i is the softmax normaliser, weighted with the reference row π instead of 1/n.
"""

import math

import numpy as np

from attncli.maths.logits import Logits, deviation, largest_deviation, reference_row
from attncli.maths.scaled import NEGLIGIBLE, Array, Scaled, scaled
from attncli.maths.softmax import log_softmax

EXPM1_BEST = 1.0
"""Below this, log mean e^x is taken as log1p(mean expm1(x)), which keeps the digits of small x."""


def sinkhorn_deviation(logits: Logits, values: Scaled, rounds: int) -> Scaled:
    """(P - 11^T/n) V [head, query, value] for values [head, key, value]."""
    heads, tokens, _ = values.mantissa.shape
    if largest_deviation(logits) < NEGLIGIBLE and logits.bias is None:
        return vanishing(logits, values)
    result = np.empty(values.mantissa.shape)
    log_weights = log_softmax(reference_row(logits))
    for head in range(heads):
        block = deviation(logits, slice(head, head + 1), slice(None))[0]
        log_ratio = doubly_normalised(block, log_weights[head], rounds)
        result[head] = np.expm1(log_ratio, out=log_ratio) @ values.mantissa[head] / tokens
    return scaled(result, values.exponent)


def vanishing(logits: Logits, values: Scaled) -> Scaled:
    """First order in E = Q K^T: one round subtracts the means of its rows and columns, and that is final."""
    queries, keys = (
        side.mantissa - side.mantissa.mean(axis=1, keepdims=True)
        for side in (logits.queries, logits.keys)
    )
    result = queries @ (keys.swapaxes(1, 2) @ values.mantissa) / keys.shape[1]
    return scaled(result, logits.queries.exponent + logits.keys.exponent + values.exponent)


def doubly_normalised(block: Array, log_weights: Array, rounds: int) -> Array:
    """log(n P) [query, key] from E and the log of the first normaliser's weights."""
    tokens = len(block)
    uniform = np.full(tokens, -math.log(tokens))
    row = log_mean_exp(block, log_weights)
    column = np.zeros(tokens)
    for _ in range(rounds):
        column = log_mean_exp(block.T - row, uniform)
        row = log_mean_exp(block - column, uniform)
    return block - row[:, None] - column


def log_mean_exp(array: Array, log_weights: Array) -> Array:
    """log Σ_j w_j e^x_ij over the last axis, Σ_j w_j = 1."""
    if np.abs(array).max() < EXPM1_BEST:
        result: Array = np.log1p(np.expm1(array) @ np.exp(log_weights))
        return result
    joint = array + log_weights
    top = joint.max(axis=1, keepdims=True)
    result = np.log(np.exp(joint - top).sum(axis=1)) + top[:, 0]
    return result
