"""What the gates of a synthetic layer multiply, in plain numbers: the heads' outputs, and the weights on token 0."""

from typing import NamedTuple

import numpy as np

from attncli.maths.residuals.plain_softmax import softmax_output
from attncli.maths.residuals.scaled import Array, plus, scaled
from attncli.maths.residuals.split import Split
from attncli.networks.layer import attention_logits, norm, per_head, with_head_bias
from attncli.networks.positions import visible_rows
from attncli.networks.spec import NetworkSpec
from attncli.networks.weights import Layer


class GatedHeads(NamedTuple):
    """Of one attention."""

    gate: Array
    """[head, query, value]: sigmoid(u W_G,h)."""
    context: Array
    """[head, query, value]: P_h V_h."""
    sink: Array
    """[head, query]: the weight on token 0; nan for queries that see one key alone, or not that one."""


def gated_heads(state: Split, layer: Layer, spec: NetworkSpec) -> GatedHeads:
    """Of the state before the block."""
    assert layer.w_g is not None
    read = state.joined()
    read = norm(read, spec) if spec.norm_position == "pre" else read
    logits, values = attention_logits(read, layer, spec), per_head(read.parts, layer.w_v)
    context = plus(softmax_output(logits, values.varying), with_head_bias(values.common, layer.b_v))
    first = np.zeros((spec.heads, spec.tokens, 1))
    first[:, 0] = 1.0
    column = softmax_output(logits, scaled(first)).value()[..., 0]
    argument = per_head(read.parts, layer.w_g).varying.value()
    gate = np.exp(-np.logaddexp(0.0, -argument))
    return GatedHeads(gate, context.value(), np.where(choosing(spec), column, np.nan))


def choosing(spec: NetworkSpec) -> np.ndarray:
    """[query] bool: who sees token 0 and another one."""
    if spec.window is None:
        return np.full(spec.tokens, spec.tokens > 1)
    visible = visible_rows(spec.tokens, spec.window, slice(None))
    chosen: np.ndarray = visible[:, 0] & (visible.sum(axis=1) > 1)
    return chosen
