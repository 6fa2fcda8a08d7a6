"""Heads with output gates in a synthetic layer, in plain numbers: gated outputs, and the weights on token 0."""

from typing import NamedTuple

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.common_row_arithmetic.softmax_attention import compute_softmax_attention_output
from attncli.networks.block_forward import (
    add_bias_per_head,
    apply_norm_layer,
    compute_attention_logits,
    project_states_per_head,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import Layer
from attncli.networks.rotary_positions_and_masks import make_sliding_window_mask


class GatedHeads(NamedTuple):
    """The gated heads of one layer."""

    gate: Array
    """[head, query, value]: sigmoid(u W_G,h)."""
    context: Array
    """[head, query, value]: P_h V_h."""
    sink: Array
    """[head, query]: the weight on token 0; nan for queries that see one key alone, or not that one."""


def compute_gated_heads(state: SplitState, layer: Layer, spec: NetworkSpec) -> GatedHeads:
    """Compute the heads from the state before the block."""
    assert layer.w_g is not None
    read = state.to_plain_form()
    read = apply_norm_layer(read, spec) if spec.norm_position == "pre" else read
    logits, values = (
        compute_attention_logits(read, layer, spec),
        project_states_per_head(read.parts, layer.w_v),
    )
    context = compute_softmax_attention_output(logits, values.varying) + add_bias_per_head(
        values.common, layer.b_v
    )
    first = np.zeros((spec.heads, spec.tokens, 1))
    first[:, 0] = 1.0
    column = compute_softmax_attention_output(logits, make_scaled_array(first)).value()[..., 0]
    argument = project_states_per_head(read.parts, layer.w_g).varying.value()
    gate = np.exp(-np.logaddexp(0.0, -argument))
    return GatedHeads(
        gate, context.value(), np.where(find_queries_seeing_several_keys(spec), column, np.nan)
    )


def find_queries_seeing_several_keys(spec: NetworkSpec) -> np.ndarray:
    """[query] bool: which queries see token 0 and at least one other."""
    if spec.visible_keys_per_query is None:
        return np.full(spec.tokens, spec.tokens > 1)
    visible = make_sliding_window_mask(spec.tokens, spec.visible_keys_per_query, slice(None))
    chosen: np.ndarray = visible[:, 0] & (visible.sum(axis=1) > 1)
    return chosen
