"""Attention and statistics of its rows by fused calls, on devices whose fused attention returns its log-sum-exp.

With s_ij = c q_i·k_j and z_i = ln Σ_j exp s_ij, two or three calls give what follows, and none of them stores a map:

    A v and z    by the call itself
    entropy      z_i - c q_i·(A k)_i, by a call with the keys as values
    Σ_j A_ij²    exp(z'_i - 2 z_i), z' by a call with twice the scale
    A_ij         exp(s_ij - z_i), of single pairs
"""

from collections.abc import Callable
from math import nan

import torch
from torch import Tensor

from attncli.capture.one_pass.attention_output_and_statistics import Results
from attncli.capture.one_pass.attention_score_formula import Formula, NotCovered
from attncli.capture.softmax_attention.attention_interface import EagerCall
from attncli.capture.softmax_attention.map_statistics import ROWS, StatisticsRequest
from attncli.capture.softmax_attention.visible_key_spans import KeySpans

SERVED = frozenset({"row_sums", "entropy", "sums_of_squares", "weights_on_first_token"})
"""Statistics of rows that these calls give, besides single offsets."""

Fused = Callable[[Tensor, Tensor, Tensor, bool, float], tuple[Tensor, Tensor]]
"""Query, key, value, whether causal, and scale → output [batch, head, query, value] and log-sum-exp [batch, head, query]."""


def attend_on_cuda(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    function = torch.ops.aten._scaled_dot_product_efficient_attention
    output, total, *_ = function(query, key, value, None, True, 0.0, causal, scale=scale)
    return output, total[..., : query.shape[2]]  # it comes with rows to spare


def attend_on_cpu(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    function = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    output, total = function(query, key, value, 0.0, causal, scale=scale)
    return output, total


FUSED_BY_DEVICE: dict[str, Fused] = {"cuda": attend_on_cuda}
"""By type of device; the CPU's is for tests alone, as the library and tiles cost less there, and mps has none."""


def attend_in_fused_calls(
    call: EagerCall, formula: Formula, request: StatisticsRequest, causal: bool
) -> Results:
    """The output, and the statistics on the CPU."""
    fused, query, scale = FUSED_BY_DEVICE[call.query.device.type], call.query, formula.scale
    group = query.shape[1] // call.key.shape[1]
    key, value = (side.repeat_interleave(group, dim=1) for side in (call.key, call.value))
    output, total = fused(query, key, value, causal, scale)
    place = torch.arange(call.query_count, device=query.device)

    def compute_weights_of_query_key_pairs(keys: Tensor) -> Tensor:
        """A_ij [batch, head, query] of one key for each query; nan where there is no such key."""
        shown = (keys >= 0) & (keys < call.key_count) & ((keys <= place) | (not causal))
        scores = (query * key[:, :, keys.clamp(0, call.key_count - 1)]).sum(dim=-1) * scale
        return (scores - total).exp().masked_fill(~shown, nan)

    found = {
        "row_sums": (total - total).exp(),
        "weights_on_first_token": compute_weights_of_query_key_pairs(0 * place),
    }
    if "entropy" in request.rows:
        mean_key, _ = fused(query, key, key, causal, scale)
        found["entropy"] = (total - scale * (query * mean_key).sum(dim=-1)).clamp_min(0.0)
    if "sums_of_squares" in request.rows:
        found["sums_of_squares"] = (
            fused(query, key, value, causal, 2.0 * scale)[1] - 2.0 * total
        ).exp()
    results = Results.allocate_results_for_call(call, request)._replace(
        output=output.transpose(1, 2)
    )
    results.write_largest_qkv_entries(call)
    for name in request.rows:
        results.rows[ROWS.index(name)] = found[name]
    for number, offset in enumerate(request.listed_offsets, len(ROWS)):
        results.rows[number] = compute_weights_of_query_key_pairs(place - offset)
    return results


def require_fused_attention_support(
    call: EagerCall, formula: Formula, request: StatisticsRequest, spans: KeySpans | None
) -> bool:
    """Whether the attention is causal; raise NotCovered where fused calls do not give all that is needed of it."""
    more = request.weights or request.compiled_library_flags or request.first_vectors
    if more or not SERVED.issuperset(request.rows):
        raise NotCovered("fused calls do not give all statistics")
    if formula.cap or formula.sinks is not None or formula.bias is not None or spans is None:
        raise NotCovered("fused calls take no caps, sinks and biases")
    if call.key.shape[-1] != call.value.shape[-1]:
        raise NotCovered("fused calls take keys and values of one width")
    if not (are_key_spans_causal(spans) or do_queries_see_all_keys(spans)):
        raise NotCovered("fused calls take causal masks alone")
    return not do_queries_see_all_keys(spans)


def do_queries_see_all_keys(spans: KeySpans) -> bool:
    return not bool(spans.first.any()) and bool((spans.stop == spans.keys).all())


def are_key_spans_causal(spans: KeySpans) -> bool:
    """Whether each query sees all keys up to its own."""
    own = torch.arange(1, spans.stop.shape[1] + 1)
    return not bool(spans.first.any()) and bool((spans.stop == own).all())
