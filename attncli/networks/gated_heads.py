"""Heads with output gates in a synthetic layer, in plain numbers: gated outputs, and the weights on token 0."""

from typing import NamedTuple

import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.common_row_arithmetic.scaled_arrays import Array, make_scaled_array
from attncli.maths.common_row_arithmetic.softmax_attention import softmax_output
from attncli.networks.block_forward import (
    add_head_bias,
    apply_sub_block_norm,
    attention_logits,
    project_per_head,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import Layer
from attncli.networks.rotary_positions_and_masks import visibility_mask


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
    read = apply_sub_block_norm(read, spec) if spec.norm_position == "pre" else read
    logits, values = (
        attention_logits(read, layer, spec),
        project_per_head(read.parts, layer.w_v),
    )
    context = softmax_output(logits, values.varying) + add_head_bias(values.common, layer.b_v)
    first = np.zeros((spec.heads, spec.tokens, 1))
    first[:, 0] = 1.0
    column = softmax_output(logits, make_scaled_array(first)).value()[..., 0]
    argument = project_per_head(read.parts, layer.w_g).varying.value()
    gate = np.exp(-np.logaddexp(0.0, -argument))
    return GatedHeads(
        gate, context.value(), np.where(find_queries_seeing_several_keys(spec), column, np.nan)
    )


def find_queries_seeing_several_keys(spec: NetworkSpec) -> np.ndarray:
    """[query] bool: which queries see token 0 and at least one other."""
    if spec.window is None:
        return np.full(spec.tokens, spec.tokens > 1)
    visible = visibility_mask(spec.tokens, spec.window, slice(None))
    chosen: np.ndarray = visible[:, 0] & (visible.sum(axis=1) > 1)
    return chosen
