"""One block of a synthetic network as a map of (common, residual) to (common, residual)."""

from functools import partial

import numpy as np

from attncli.errors import InputError
from attncli.maths.activations import ACTIVATIONS, gated
from attncli.maths.logits import Logits
from attncli.maths.scaled import Array, Scaled, matmul, plus, scaled, times
from attncli.maths.sinkhorn import sinkhorn_deviation
from attncli.maths.softmax import reference_offset, softmax_deviation
from attncli.maths.split import Parts, Split, normalised, together, with_bias
from attncli.networks.positions import rotated, rotation_since_start, visible_rows
from attncli.networks.spec import NORM_EPSILON, NetworkSpec
from attncli.networks.variants import Switches
from attncli.networks.weights import Layer


def block(state: Split, layer: Layer, spec: NetworkSpec, switches: Switches) -> Split:
    """Attention, then the MLP, each with its skip and norm where the variant has them."""
    update = attention(before(state, spec), layer, spec, switches.remove_outlier)
    state = after(state, update, switches.skip, spec)
    if switches.mlp:
        state = after(state, mlp(before(state, spec), layer, spec), switches.mlp_skip, spec)
    return state


def before(state: Split, spec: NetworkSpec) -> Split:
    """What a sub-block reads."""
    return norm(state, spec) if spec.norm_position == "pre" else state


def after(state: Split, update: Parts, skip: bool, spec: NetworkSpec) -> Split:
    """What a sub-block leaves."""
    state = together(state, update) if skip else Split(*update)
    if not state.is_finite():
        raise InputError(
            "the network's values leave float range: lower --init-scale or add a --norm."
        )
    return norm(state, spec) if spec.norm_position == "post" else state


def norm(state: Split, spec: NetworkSpec) -> Split:
    if spec.norm == "none":
        return state
    return normalised(state, NORM_EPSILON, centre=spec.norm == "layer")


def mlp(state: Split, layer: Layer, spec: NetworkSpec) -> Parts:
    hidden = ACTIVATIONS[spec.activation](with_bias(state.parts @ layer.w_in, layer.b_in))
    return with_bias(hidden @ layer.w_out, layer.b_out)


def attention(state: Split, layer: Layer, spec: NetworkSpec, remove_outlier: bool) -> Parts:
    """Σ_h P_h X W_V,h W_O,h + b as common and residual parts.

    P X = 1 (c + π^T R)^T + (P - 1π^T) R, where π^T R = (π - 1/n)^T R because R is centred. Without the outlier,
    (P - 11^T/n) X has the same residual and only (π - 1/n)^T R as its common part.
    """
    values = per_head(state.parts, layer.w_v)
    logits = attention_logits(state, layer, spec)
    common = scaled(np.zeros(values.common.mantissa.shape))
    if spec.rounds:
        residual = sinkhorn_deviation(logits, values.residual, spec.rounds)
    else:
        residual = softmax_deviation(logits, values.residual)
        common = weighted_sum(reference_offset(logits.reference), values.residual)
    if not remove_outlier:
        common = plus(common, with_head_bias(values.common, layer.b_v))
    return merged(Parts(common, residual), state, layer)


def merged(heads: Parts, state: Split, layer: Layer) -> Parts:
    """The heads' outputs [head, …, value], gated where the layer has gates, through W_O."""
    if layer.w_g is not None:
        heads = gated(heads, per_head(state.parts, layer.w_g))
    width = layer.w_o.shape[-1]
    w_o = layer.w_o.reshape(-1, width)
    common = heads.common.mantissa.reshape(-1)
    residual = heads.residual.mantissa.swapaxes(0, 1).reshape(state.tokens, -1)
    joined = Parts(Scaled(common, heads.common.exponent), Scaled(residual, heads.residual.exponent))
    return with_bias(joined @ w_o, layer.b_o)


def attention_logits(state: Split, layer: Layer, spec: NetworkSpec) -> Logits:
    """The reference row a (a virtual query with content c at position 0) and what deviates from it."""
    queries = per_head(state.parts, layer.w_q)
    keys = per_head(state.parts, layer.w_k)
    common_query = with_head_bias(queries.common, layer.b_q)
    query_side, key_side = queries.residual, keys.residual
    if spec.positions == "rope":
        # The rotated common key differs from row to row, so c no longer drops out of the softmax.
        common_key = with_head_bias(keys.common, layer.b_k)
        turn = partial(rotated, tokens=state.tokens)
        query_side = plus(turn(query_side), rotation_since_start(common_query, state.tokens))
        key_side = turn(plus(key_side, common_key))
    query_side = times(query_side, 1.0 / np.sqrt(spec.d))
    reference = matmul_heads(common_query, key_side)
    return Logits(
        reference=times(reference, 1.0 / np.sqrt(spec.d)),
        queries=query_side,
        keys=key_side,
        bias=layer.relative_bias if spec.positions == "relative" else None,
        visible=None if spec.window is None else partial(visible_rows, state.tokens, spec.window),
    )


def per_head(parts: Parts, weights: Array) -> Parts:
    """Projections: common [head, 1, width], residual [head, token, width]."""
    common = Scaled(parts.common.mantissa[None, None, :], parts.common.exponent)
    return Parts(matmul(common, weights), matmul(parts.residual, weights))


def with_head_bias(common: Scaled, bias: Array | None) -> Scaled:
    """A bias [head, width] joins the common part [head, 1, width]."""
    return common if bias is None else plus(common, scaled(bias[:, None, :]))


def matmul_heads(common: Scaled, keys: Scaled) -> Scaled:
    """c_q · k_j [head, key]"""
    product = common.mantissa @ keys.mantissa.swapaxes(1, 2)
    return scaled(product[:, 0, :], common.exponent + keys.exponent)


def weighted_sum(weights: Scaled, values: Scaled) -> Scaled:
    """Σ_j w_j v_j [head, 1, value]"""
    product = weights.mantissa[:, None, :] @ values.mantissa
    return scaled(product, weights.exponent + values.exponent)
