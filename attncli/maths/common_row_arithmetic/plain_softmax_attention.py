"""Plain softmax attention: accurate enough where tokens differ much."""

import math

import numpy as np

from attncli.maths.common_row_arithmetic.logit_deviation import (
    Logits,
    bound_largest_logit_deviation,
    compute_logit_deviation,
    compute_reference_logits,
    iter_logit_blocks,
)
from attncli.maths.common_row_arithmetic.scaled_arrays import Array, ScaledArray, make_scaled_array

MODERATE = math.log2(300.0)
"""Largest log2 |E| for which e^E times any weight stays inside float range."""


def log_softmax(logits: Array) -> Array:
    """Over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def softmax_output(logits: Logits, values: ScaledArray, minus: float = 0.0) -> ScaledArray:
    """P V [head, query, value], by the plain formula; `minus` is subtracted from every entry of P."""
    heads, tokens, _ = values.mantissa.shape
    reference = compute_reference_logits(logits)
    huge = (
        bound_largest_logit_deviation(logits) > MODERATE or np.abs(reference).max() > 2.0**MODERATE
    )
    result = np.empty(values.mantissa.shape)
    for some, rows in iter_logit_blocks(heads, tokens, tokens):
        block = compute_logit_deviation(logits, some, rows)
        block += reference[some, None, :]
        if huge:
            block = mask_logits(block, logits, rows)
            block -= block.max(axis=2, keepdims=True)
        np.exp(block, out=block)
        if logits.visible is not None and not huge:
            block *= logits.visible(rows)
        block /= block.sum(axis=2, keepdims=True)
        if minus:
            block -= minus
        result[some, rows] = block @ values.mantissa[some]
    return make_scaled_array(result, values.exponent)


def mask_logits(block: Array, logits: Logits, rows: slice) -> Array:
    """Logits with -inf where the mask hides a key."""
    if logits.visible is None:
        return block
    return np.where(logits.visible(rows), block, -math.inf)
