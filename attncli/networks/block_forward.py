"""One block of a synthetic network as a map of split states."""

from collections.abc import Callable
from functools import partial

import numpy as np

from attncli.errors import BelowResolution, InputError
from attncli.maths.common_row_arithmetic.activation_functions import (
    ACTIVATIONS,
    multiply_by_sigmoid,
)
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import (
    SplitParts,
    SplitState,
    add_bias_to_common_part,
    add_skip_connection,
    normalise_features_of_tokens,
)
from attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row import (
    Logits,
    bound_largest_logit_deviation,
)
from attncli.maths.common_row_arithmetic.sinkhorn_attention import (
    compute_sinkhorn_attention_deviation,
    compute_sinkhorn_attention_output,
)
from attncli.maths.common_row_arithmetic.softmax_attention import (
    RESOLVED_BITS,
    compute_reference_row_minus_uniform,
    compute_softmax_attention_deviation,
    compute_softmax_attention_output,
)
from attncli.networks.ablation_variants import (
    FOR_MODELS_ONLY,
    AblationSwitches,
    require_known_switches,
)
from attncli.networks.network_spec import NORM_EPSILON, NetworkSpec
from attncli.networks.network_weights import Layer
from attncli.networks.rotary_positions_and_masks import (
    apply_rotary_positions,
    make_sliding_window_mask,
)

APART = -10
"""log2 of the residual relative to X above which tokens differ much: the plain form loses nothing."""

SAFE = -20
"""log2 of the relative residual above which a plain result still has ten digits."""

KNOWN = ("skip", "mlp", "mlp_skip", "remove_outlier", *FOR_MODELS_ONLY)
"""Switches that a synthetic block reads, or that only models have."""

SubBlock = Callable[[SplitState], SplitParts]


def run_block(
    state: SplitState, layer: Layer, spec: NetworkSpec, switches: AblationSwitches
) -> SplitState:
    """Attention, then the MLP, each with its skip and norm where the variant has them."""
    require_known_switches(switches, KNOWN, "a synthetic block")
    attend = partial(apply_attention, layer=layer, spec=spec, switches=switches)
    state = run_sub_block(state, attend, switches.skip, spec)
    if switches.mlp:
        state = run_sub_block(
            state, partial(apply_mlp, layer=layer, spec=spec), switches.mlp_skip, spec
        )
    return state


def run_sub_block(state: SplitState, part: SubBlock, skip: bool, spec: NetworkSpec) -> SplitState:
    """Run a sub-block in plain form where tokens differ before and after, else in split form."""
    if state.log2_residual_relative_to_states > APART:
        result = apply_sub_block(state.to_plain_form(), part, skip, spec)
        if result.log2_residual_relative_to_states > SAFE:
            return result
    return apply_sub_block(state.to_split_form(), part, skip, spec)


def apply_sub_block(state: SplitState, part: SubBlock, skip: bool, spec: NetworkSpec) -> SplitState:
    """Pre-norm, the part itself, the skip, post-norm."""
    update = part(apply_norm_layer(state, spec) if spec.norm_position == "pre" else state)
    result = add_skip_connection(state, update) if skip else SplitState(*update, state.plain)
    if not result.is_finite():
        raise InputError("values leave float range: lower `init_scale` or add a `norm`.")
    if not skip and result.varying.exponent < update.varying.exponent - RESOLVED_BITS:
        raise BelowResolution("what all tokens share drowns what sets them apart.")
    return apply_norm_layer(result, spec) if spec.norm_position == "post" else result


def apply_norm_layer(state: SplitState, spec: NetworkSpec) -> SplitState:
    if spec.norm == "none":
        return state
    return normalise_features_of_tokens(state, NORM_EPSILON, centre=spec.norm == "layer")


def apply_mlp(state: SplitState, layer: Layer, spec: NetworkSpec) -> SplitParts:
    hidden = ACTIVATIONS[spec.activation](
        add_bias_to_common_part(state.parts @ layer.w_in, layer.b_in)
    )
    return add_bias_to_common_part(hidden @ layer.w_out, layer.b_out)


def apply_attention(
    state: SplitState, layer: Layer, spec: NetworkSpec, switches: AblationSwitches
) -> SplitParts:
    """Σ_h P_h X W_V,h W_O,h + b, as common and varying parts; without the outlier, P_h - 11^T/n in place of P_h."""
    values = project_states_per_head(state.parts, layer.w_v)
    logits = compute_attention_logits(state, layer, spec)
    remove_outlier = switches.remove_outlier
    if state.plain and (not remove_outlier or is_attention_far_from_uniform(logits)):
        varying = compute_plain_attention(
            logits, values.varying, spec.sinkhorn_rounds, remove_outlier
        )
        heads = SplitParts(make_scaled_array(np.zeros_like(values.common.mantissa)), varying)
    else:
        heads = compute_split_attention(
            logits, values.varying, spec.sinkhorn_rounds, needed=not switches.skip
        )
    if not remove_outlier:
        own = add_bias_per_head(values.common, layer.b_v)
        heads = heads._replace(common=heads.common + own)
    return merge_head_outputs(heads, state, layer)


def is_attention_far_from_uniform(logits: Logits) -> bool:
    """Whether attention is far enough from uniform that P - 11^T/n may be formed by subtraction."""
    return bound_largest_logit_deviation(logits) > 0.0


def compute_plain_attention(
    logits: Logits, values: ScaledArray, rounds: int, remove_outlier: bool
) -> ScaledArray:
    """P V, or (P - 11^T/n) V."""
    if rounds:
        output = (
            compute_sinkhorn_attention_deviation
            if remove_outlier
            else compute_sinkhorn_attention_output
        )
        return output(logits, values, rounds)
    tokens = values.mantissa.shape[1]
    return compute_softmax_attention_output(
        logits, values, minus=1.0 / tokens if remove_outlier else 0.0
    )


def compute_split_attention(
    logits: Logits, values: ScaledArray, rounds: int, needed: bool
) -> SplitParts:
    """(π - 1/n)^T V and (P - 1π^T) V: together (P - 11^T/n) V, which is all of P V where V is centred.

    Sinkhorn attention has the uniform row as its reference. `needed` says that nothing else holds the residual up,
    so that a deviation without digits must not be passed on.
    """
    if rounds:
        return SplitParts(
            make_scaled_array(np.zeros_like(values.mantissa[:, :1])),
            compute_sinkhorn_attention_deviation(logits, values, rounds),
        )
    varying, resolved = compute_softmax_attention_deviation(logits, values)
    if needed and not resolved:
        raise BelowResolution("tokens that share the attention coincide to the last bit.")
    offset = compute_reference_row_minus_uniform(logits).apply_layout_change(
        lambda each: each[:, None]
    )
    return SplitParts(offset @ values, varying)


def merge_head_outputs(heads: SplitParts, state: SplitState, layer: Layer) -> SplitParts:
    """The heads' outputs [head, …, value], gated where the layer has gates, through W_O."""
    if layer.w_g is not None:
        heads = multiply_by_sigmoid(heads, project_states_per_head(state.parts, layer.w_g))
    width = layer.w_o.shape[-1]
    w_o = layer.w_o.reshape(-1, width)
    joined = SplitParts(
        heads.common.apply_layout_change(np.ravel),
        heads.varying.apply_layout_change(
            lambda each: each.swapaxes(0, 1).reshape(state.tokens, -1)
        ),
    )
    return add_bias_to_common_part(joined @ w_o, layer.b_o)


def compute_attention_logits(state: SplitState, layer: Layer, spec: NetworkSpec) -> Logits:
    """The logits, split into what all queries have in common and what deviates from it.

    In split form the reference is the last token's query, which sees every key whatever the mask: where all tokens
    attend alike it does too, so deviations are as small as they can be. In plain form there is no reference.
    """
    queries, keys = (
        project_states_per_head(state.parts, layer.w_q),
        project_states_per_head(state.parts, layer.w_k),
    )
    shared, own, key_side = (
        add_bias_per_head(queries.common, layer.b_q),
        queries.varying,
        keys.varying,
    )
    if spec.positions == "rope":
        # A turned common key differs from token to token, so it does not drop out of the softmax.
        key_side = key_side + add_bias_per_head(keys.common, layer.b_k)
        shared, own, key_side = (
            apply_rotary_positions(each, tokens=state.tokens) for each in (shared, own, key_side)
        )
    if state.plain:
        reference = make_scaled_array(np.zeros_like(shared.mantissa[:, :1]))
        deviating = shared + own
    else:
        last_shared, rest_shared = split_off_last_token_vectors(shared)
        last_own, rest_own = split_off_last_token_vectors(own)
        reference, deviating = last_shared + last_own, rest_shared + rest_own
    scale = 1.0 / np.sqrt(spec.head_width)
    logits_of_reference = reference @ key_side.apply_layout_change(lambda each: each.swapaxes(1, 2))
    return Logits(
        reference=logits_of_reference.apply_layout_change(lambda each: each[:, 0]) * scale,
        queries=deviating * scale,
        keys=key_side,
        bias=layer.relative_bias if spec.positions == "relative" else None,
        bias_in_reference=not state.plain,
        visible=None
        if spec.visible_keys_per_query is None
        else partial(make_sliding_window_mask, state.tokens, spec.visible_keys_per_query),
    )


def split_off_last_token_vectors(vectors: ScaledArray) -> tuple[ScaledArray, ScaledArray]:
    """The last token's vector of every head [head, 1, width], and what all vectors deviate from it."""
    return vectors.map_linearly(lambda each: each[:, -1:]), vectors.map_linearly(
        lambda each: each - each[:, -1:]
    )


def project_states_per_head(parts: SplitParts, weights: Array) -> SplitParts:
    """Projections: common [head, 1, width], varying [head, token, width]."""
    common = parts.common.apply_layout_change(lambda row: row[None, None, :])
    return SplitParts(common @ weights, parts.varying @ weights)


def add_bias_per_head(common: ScaledArray, bias: Array | None) -> ScaledArray:
    """A bias [head, width] joins the common part [head, 1, width]."""
    return common if bias is None else common + make_scaled_array(bias[:, None, :])
