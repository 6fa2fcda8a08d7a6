"""P (1c^T + V) for attention weights P.

Content-only attention without a mask, and attention to states without positions, tend to one common row, and what is left
of it must be computed without cancellation. Wherever positions or a mask make the rows differ, P itself is enough:
P (1c^T + V) = (P1) c^T + P V, where P1 = 1 but for the share of a learned sink.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.errors import BelowResolution
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row import Logits
from attncli.maths.common_row_arithmetic.softmax_attention import (
    RESOLVED_BITS,
    compute_reference_row_minus_uniform,
    compute_softmax_attention_deviation,
)
from attncli.tensor_subclasses.residual_split.attention_score_terms import HIDDEN, ScoreTerms
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    centre_varying_part,
    make_missing_rule_error,
    make_split_tensor_from_states,
    rule,
)
from attncli.tensor_subclasses.sdpa_by_definition import evaluate_sdpa
from attncli.tolerances import KNOWN_ROW_SUM

rule(F.scaled_dot_product_attention)(evaluate_sdpa)


def do_score_rows_differ_by_query_only(terms: ScoreTerms) -> bool:
    """Whether the rows of these scores differ only by the queries' contents."""
    if not isinstance(terms.query, SplitTensor) or terms.sink_scores is not None:
        return False
    if any(
        isinstance(side, SplitTensor) and side.axis != side.dim() - 2
        for side in (terms.query, terms.key)
    ):
        return False
    if terms.bias is None:
        return True
    row = terms.bias[..., :1, :]
    hidden = row <= HIDDEN
    alike = bool((hidden == hidden.flatten(0, -2)[0]).all()) and not bool(hidden.all())
    return alike and bool((terms.bias == row).all())


def compute_split_attention_output(terms: ScoreTerms, values: Tensor) -> SplitTensor:
    """π^T V and (P - 1π^T) V, the reference row π that of the last token's query."""
    lead = np.broadcast_shapes(terms.leading_shape, tuple(values.shape[:-2]))
    seen, bias = find_visible_keys(terms, lead)
    (q_common, q), (_, k), (v_common, v) = (
        split_head_vectors(side, lead) for side in (terms.query, terms.key, values)
    )
    k, v = (part.map_linearly(lambda each: each[:, seen]) for part in (k, v))
    reference = q_common + q.map_linearly(lambda each: each[:, -1:])
    own = q.map_linearly(lambda each: each - each[:, -1:])
    row = make_scaled_array(
        (reference.mantissa @ k.mantissa.swapaxes(1, 2))[:, 0] * terms.scale,
        reference.exponent + k.exponent,
    )
    logits = Logits(
        reference=row if bias is None else row + make_scaled_array(bias),
        queries=own * terms.scale,
        keys=k,
    )
    varying, resolved = compute_softmax_attention_deviation(logits, v)
    if not resolved:
        raise BelowResolution("tokens that share the attention coincide to the last bit.")
    offset = compute_reference_row_minus_uniform(logits)
    mean = v.map_linearly(lambda each: each.mean(axis=1, keepdims=True))
    shared = mean + make_scaled_array(
        offset.mantissa[:, None, :] @ v.mantissa, offset.exponent + v.exponent
    )
    rows = (len(v.mantissa), q.mantissa.shape[1], v.mantissa.shape[2])
    # with a single key it has one row
    varying = varying.apply_layout_change(partial(np.broadcast_to, shape=rows))
    return unflatten_map_axes(v_common + shared, varying, lead)


def find_visible_keys(terms: ScoreTerms, lead: tuple[int, ...]) -> tuple[Any, Array | None]:
    """Find the keys that no mask hides, and the bias of their scores [map, key]."""
    if terms.bias is None:
        return slice(None), None
    row = terms.bias[..., 0, :].expand(*lead, -1).reshape(-1, terms.bias.shape[-1])
    seen = (row[0] > HIDDEN).numpy()
    bias = row.to(torch.float64).numpy()[:, seen]
    return seen, bias


def split_head_vectors(side: Tensor, lead: tuple[int, ...]) -> tuple[ScaledArray, ScaledArray]:
    """c [map, 1, width] and V [map, token, width], every leading axis flattened; of plain numbers c is the mean."""
    if isinstance(side, SplitTensor):
        common, varying = side.common, side.varying
    else:
        array = side.detach().to(torch.float64).numpy()
        mean = array.mean(axis=-2, keepdims=True)
        common, varying = make_scaled_array(mean), make_scaled_array(array - mean)
    return flatten_leading_axes(common, lead), flatten_leading_axes(varying, lead)


def flatten_leading_axes(part: ScaledArray, lead: tuple[int, ...]) -> ScaledArray:
    tail = part.mantissa.shape[-2:]
    return part.apply_layout_change(
        lambda each: np.broadcast_to(each, (*lead, *tail)).reshape(-1, *tail)
    )


def unflatten_map_axes(
    common: ScaledArray, varying: ScaledArray, lead: tuple[int, ...]
) -> SplitTensor:
    inner, outer = (
        part.apply_layout_change(lambda each: each.reshape(*lead, *each.shape[-2:]))
        for part in (common, varying)
    )
    return centre_varying_part(inner, outer, axis=len(lead))


def mix_value_vectors(weights: Tensor, values: Tensor, missing: Tensor) -> SplitTensor:
    """P (1c^T + V) for plain weights; `missing` [..., query, 1] is what their rows lack of 1."""
    if not isinstance(values, SplitTensor):
        return make_split_tensor_from_states(torch.matmul(weights, values), axis=-2)
    if values.axis != values.dim() - 2:
        raise make_missing_rule_error("weights that mix other axes than tokens")
    mantissa = torch.from_numpy(np.ascontiguousarray(values.varying.mantissa))
    varying = make_scaled_array(torch.matmul(weights, mantissa).numpy(), values.varying.exponent)
    common = values.common
    largest = values.varying
    if bool(missing.any()):
        lacks = -(make_scaled_array(missing.numpy()) * common)
        largest = max(largest, lacks, key=lambda part: part.exponent)
        varying = varying + lacks
    shape = (*varying.mantissa.shape[:-2], 1, varying.mantissa.shape[-1])
    common = common.apply_layout_change(partial(np.broadcast_to, shape=shape))
    result = centre_varying_part(common, varying, varying.mantissa.ndim - 2)
    resolved = result.varying.exponent >= largest.exponent - RESOLVED_BITS
    if not largest.is_zero() and (result.varying.is_zero() or not resolved):
        raise BelowResolution("the rows of the attention coincide to the last bit.")
    return result


def mix_value_vectors_by_weights(weights: Tensor, values: SplitTensor) -> SplitTensor:
    """Mix values by weights of unknown origin: their row sums show what they lack of 1."""
    missing = 1.0 - weights.to(torch.float64).sum(dim=-1, keepdim=True)
    if float(missing.abs().max()) <= KNOWN_ROW_SUM.tolerance_for_dtype():
        missing = torch.zeros_like(missing)
    return mix_value_vectors(weights.to(torch.float64), values, missing)
