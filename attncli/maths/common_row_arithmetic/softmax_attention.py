"""Softmax attention P on values V: P V by the plain formula, accurate enough where tokens differ much, and
(P - 1π^T) V with the reference row π, exact at any size.

With m_ij = expm1(E_ij) and m̄_i = Σ_j π_j m_ij,

    P_ij - π_j = π_j (m_ij - m̄_i) / (1 + m̄_i)

has no cancellation left. The key with the largest π (the star) is subtracted from all keys and values first, which
softmax and the row sums allow; so when π is nearly one-hot the result comes from the other keys alone and keeps its
digits, and their weights are carried relative to the second largest, so nothing underflows.

Four ways to the exact number:
  vanishing    E below 2^-60: expm1(E) = E, and the product is of low rank: no token × token array at all
  factored     E moderate: one expm1 and two matrix products, as dear as plain attention
  masked       some keys invisible, so that P - π is of order one in some rows: plain softmax, minus π^T V
  logarithmic  huge logits: P - π entry by entry from log P and log π
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    NEGLIGIBLE,
    Array,
    ScaledArray,
    align_scaled_to_exponent,
    expm1_scaled,
    find_common_exponent,
    find_largest_magnitude,
    make_scaled_array,
    make_scaled_from_logs,
)
from attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row import (
    Logits,
    bound_largest_logit_deviation,
    compute_deviation_of_logits,
    compute_reference_row_logits,
    find_last_query_bias,
    iter_logit_blocks,
)

MODERATE = math.log2(300.0)
"""Largest log2 |E| for which e^E times any weight stays inside float range."""

RESOLVED_BITS = 30
"""A result this far below its largest term has no more than 22 bits (6 digits) left."""


def log_softmax(logits: Array) -> Array:
    """Over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def compute_softmax_attention_output(
    logits: Logits, values: ScaledArray, minus: float = 0.0
) -> ScaledArray:
    """P V [head, query, value], by the plain formula; `minus` is subtracted from every entry of P."""
    heads, tokens, _ = values.mantissa.shape
    reference = compute_reference_row_logits(logits)
    huge = (
        bound_largest_logit_deviation(logits) > MODERATE or np.abs(reference).max() > 2.0**MODERATE
    )
    result = np.empty(values.mantissa.shape)
    for some, rows in iter_logit_blocks(heads, tokens, tokens):
        block = compute_deviation_of_logits(logits, some, rows)
        block += reference[some, None, :]
        if huge:
            block = mask_attention_logits(block, logits, rows)
            block -= block.max(axis=2, keepdims=True)
        np.exp(block, out=block)
        if logits.visible is not None and not huge:
            block *= logits.visible(rows)
        block /= block.sum(axis=2, keepdims=True)
        if minus:
            block -= minus
        result[some, rows] = block @ values.mantissa[some]
    return make_scaled_array(result, values.exponent)


def mask_attention_logits(block: Array, logits: Logits, rows: slice) -> Array:
    """Logits with -inf where the mask hides a key."""
    if logits.visible is None:
        return block
    return np.where(logits.visible(rows), block, -math.inf)


def compute_reference_row_minus_uniform(logits: Logits) -> ScaledArray:
    """π - 1/n [head, key] for the reference row π, to full relative accuracy when π is nearly uniform."""
    reference = logits.reference
    if logits.bias_in_reference and logits.bias is not None:
        reference = reference + make_scaled_array(find_last_query_bias(logits))
    tokens = reference.mantissa.shape[1]
    if reference.exponent > 0:
        return make_scaled_array(np.exp(log_softmax(reference.value())) - 1.0 / tokens)
    grown = expm1_scaled(reference)
    mean = grown.mantissa.mean(axis=1, keepdims=True)
    total = 1.0 + ScaledArray(mean, grown.exponent).value()
    return make_scaled_array((grown.mantissa - mean) / total / tokens, grown.exponent)


class SoftmaxDeviation(NamedTuple):
    """(P - 1π^T) V, and whether any of its digits exceed rounding.

    It does not where keys that share the attention coincide to the last bit, though they may truly differ by e^-100:
    terms of order one then cancel, and what is left is not the difference but its rounding.
    """

    value: ScaledArray
    resolved: bool


class SumWithLargestTerm(NamedTuple):
    """A sum of terms, and the size of the largest of them."""

    value: ScaledArray
    largest: ScaledArray
    """One number; kept with its integer exponent, whose last bits a float would lose."""


def compute_softmax_attention_deviation(logits: Logits, values: ScaledArray) -> SoftmaxDeviation:
    """(P - 1π^T) V [head, query, value] for values [head, key, value]."""
    if values.mantissa.shape[1] == 1:
        return SoftmaxDeviation(make_scaled_array(np.zeros(values.mantissa.shape)), True)
    reference = compute_reference_row_logits(logits)
    star = reference.argmax(axis=1)
    logits = logits._replace(keys=subtract_reference_key(logits.keys, star))
    values = subtract_reference_key(values, star)
    size = bound_largest_logit_deviation(logits)
    log_reference = log_softmax(reference)
    if logits.visible is None:
        weights, log_weight = remove_key_from_reference_row(reference, star)
        found = compute_unmasked_softmax_deviation(logits, weights, log_weight, star, values, size)
        if found is not None:
            value, resolved = flag_deviation_above_rounding(found)
            weight = make_scaled_from_logs(np.ones(len(log_weight)), log_weight)
            return SoftmaxDeviation(
                value * weight.apply_layout_change(lambda each: each[:, None, None]), resolved
            )
    elif size <= MODERATE and np.ptp(reference) <= 2.0**MODERATE:
        return flag_deviation_above_rounding(
            compute_masked_softmax_deviation(logits, np.exp(log_reference), values)
        )
    return flag_deviation_above_rounding(
        compute_deviation_by_logarithms(logits, log_reference, star, values)
    )


def compute_unmasked_softmax_deviation(
    logits: Logits,
    weights: Array,
    log_weight: Array,
    star: NDArray[np.intp],
    values: ScaledArray,
    size: float,
) -> SumWithLargestTerm | None:
    """The deviation where every key is visible, over e^log_weight; None where logits are huge."""
    if size < NEGLIGIBLE and logits.bias is None:
        value = compute_first_order_softmax_deviation(logits, weights, log_weight, values)
        return SumWithLargestTerm(value, bound_largest_deviation_term(logits, values))
    return compute_deviation_by_matrix_products(logits, weights, log_weight, star, values)


def bound_largest_deviation_term(logits: Logits, values: ScaledArray) -> ScaledArray:
    """A bound on |E V|, for the case E = 0."""
    sides = (logits.queries, logits.keys, values)
    lengths = [math.sqrt(float(np.square(side.mantissa).sum(-1).max())) for side in sides]
    return make_scaled_number(math.prod(lengths), sum(side.exponent for side in sides))


def make_scaled_number(magnitude: float, exponent: int) -> ScaledArray:
    """One number."""
    return make_scaled_array(np.full(1, magnitude), exponent)


def flag_deviation_above_rounding(total: SumWithLargestTerm) -> SoftmaxDeviation:
    if total.largest.is_zero():
        return SoftmaxDeviation(total.value, True)
    resolved = total.value.exponent > total.largest.exponent - RESOLVED_BITS
    return SoftmaxDeviation(total.value, resolved and not total.value.is_zero())


def subtract_reference_key(array: ScaledArray, star: NDArray[np.intp]) -> ScaledArray:
    """Subtract the head's reference key (the star) from every key's vector."""
    chosen = array.mantissa[np.arange(len(star)), star]
    return make_scaled_array(array.mantissa - chosen[:, None, :], array.exponent)


def remove_key_from_reference_row(reference: Array, star: NDArray[np.intp]) -> tuple[Array, Array]:
    """π without the reference key, as e^log_weight[head] · weights[head, key] with largest weight 1."""
    rest = reference.copy()
    rest[np.arange(len(star)), star] = -math.inf
    second = rest.max(axis=1)
    log_star = log_softmax(reference).max(axis=1)
    return np.exp(rest - second[:, None]), second - reference.max(axis=1) + log_star


def compute_value_covariance_from_moments(
    moments: Array, weights: Array, log_weight: Array, values: Array
) -> tuple[Array, Array]:
    """From moments [head, query, value + 1] = m @ [w V, w]: the numerator of the covariance, and the mean m̄.

    Σ_j w_j m_ij V_j - m̄_i Σ_j w_j V_j, where one factor e^log_weight is left to the caller.
    """
    share = np.exp(log_weight)[:, None, None]
    mean_values = share * (weights[:, None, :] @ values)
    means = moments[:, :, -1:]
    return moments[:, :, :-1] - means * mean_values, share * means


def append_weight_column_to_values(weights: Array, values: Array) -> Array:
    """[w V, w] as one array [head, key, value + 1], so that one matrix product yields both moments."""
    column = weights[:, :, None]
    return np.concatenate([column * values, column], axis=2)


def compute_first_order_softmax_deviation(
    logits: Logits, weights: Array, log_weight: Array, values: ScaledArray
) -> ScaledArray:
    """First order in E: Q (K^T [w V, w]), never forming Q K^T."""
    right = logits.keys.mantissa.swapaxes(1, 2) @ append_weight_column_to_values(
        weights, values.mantissa
    )
    moments = logits.queries.mantissa @ right
    numerator, _ = compute_value_covariance_from_moments(
        moments, weights, log_weight, values.mantissa
    )
    exponent = logits.queries.exponent + logits.keys.exponent
    return make_scaled_array(numerator, exponent + values.exponent)


def compute_deviation_by_matrix_products(
    logits: Logits, weights: Array, log_weight: Array, star: NDArray[np.intp], values: ScaledArray
) -> SumWithLargestTerm | None:
    """The deviation where logits are not huge: one expm1 and two matrix products."""
    heads, tokens, width = values.mantissa.shape
    right = append_weight_column_to_values(weights, values.mantissa)
    moments = np.empty((heads, logits.queries.mantissa.shape[1], width + 1))
    sizes = np.empty((heads, moments.shape[1], 1))
    for some, rows in iter_logit_blocks(heads, moments.shape[1], tokens):
        block = compute_deviation_of_logits(logits, some, rows)
        if logits.bias is not None:
            block -= np.take_along_axis(block, star[some, None, None], axis=2)
        if find_largest_magnitude(block) > 2.0**MODERATE:
            return None
        moments[some, rows] = np.expm1(block, out=block) @ right[some]
        sizes[some, rows] = np.abs(block, out=block) @ weights[some, :, None]
    numerator, means = compute_value_covariance_from_moments(
        moments, weights, log_weight, values.mantissa
    )
    value = make_scaled_array(numerator / (1.0 + means), values.exponent)
    largest = float((sizes / (1.0 + means)).max())
    return SumWithLargestTerm(
        value, make_scaled_number(0.0 if values.is_zero() else largest, values.exponent)
    )


def compute_masked_softmax_deviation(
    logits: Logits, weights: Array, values: ScaledArray
) -> SumWithLargestTerm:
    """The deviation with a mask: plain softmax over the visible keys, minus the reference."""
    output = compute_softmax_attention_output(logits, values)
    reference = make_scaled_array(weights[:, None, :] @ values.mantissa, values.exponent)
    difference = output - reference
    return SumWithLargestTerm(
        difference, make_scaled_number(1.0, find_common_exponent(output, reference))
    )


def compute_deviation_by_logarithms(
    logits: Logits, log_reference: Array, star: NDArray[np.intp], values: ScaledArray
) -> SumWithLargestTerm:
    """The deviation entry by entry: |P - π| = max(P, π) (1 - e^-|log P - log π|)."""
    heads, tokens, width = values.mantissa.shape
    result = np.zeros((heads, logits.queries.mantissa.shape[1], width))
    pieces = []
    largest: int | None = None
    for some, rows in iter_logit_blocks(heads, result.shape[1], tokens):
        block = mask_attention_logits(compute_deviation_of_logits(logits, some, rows), logits, rows)
        weights = subtract_reference_attention_row(block, log_reference[some], star[some])
        if not weights.is_zero():
            largest = weights.exponent if largest is None else max(largest, weights.exponent)
        pieces.append((some, rows, weights @ values.mantissa[some]))
    top = find_common_exponent(*(piece for _, _, piece in pieces))
    for some, rows, piece in pieces:
        result[some, rows] = align_scaled_to_exponent(piece, top)
    size = make_scaled_number(float(largest is not None), (largest or 0) + values.exponent)
    return SumWithLargestTerm(make_scaled_array(result, top + values.exponent), size)


def subtract_reference_attention_row(
    block: Array, log_reference: Array, star: NDArray[np.intp]
) -> ScaledArray:
    """P - π from E and log π; the reference key's column, which meets a zero value row, is 0.

    log P comes from the logits' distance to their row maximum, which is exact where P is large. log P - log π is that
    difference or E minus the row's normaliser, whichever has the smaller terms and so the smaller rounding: with huge
    logits the first, with small deviations the second.
    """
    logits = block + log_reference[:, None, :]
    top = logits.max(axis=2, keepdims=True)
    logits -= top
    total = np.log(np.exp(logits).sum(axis=2, keepdims=True))
    logits -= total
    normaliser = top + total
    far = np.abs(block) + np.abs(normaliser) > np.abs(logits) + np.abs(log_reference[:, None, :])
    ratio = np.where(far, logits - log_reference[:, None, :], block - normaliser)
    sign = np.sign(ratio)
    larger = np.maximum(logits, log_reference[:, None, :], out=logits)
    with np.errstate(divide="ignore"):  # log 0 = -inf where P = π
        larger += np.log(-np.expm1(-np.abs(ratio, out=ratio), out=ratio))
    larger[np.arange(len(star)), :, star] = -math.inf
    return make_scaled_from_logs(sign, larger)
