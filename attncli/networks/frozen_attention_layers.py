"""One layer's attention as a linear map: attention weights, gates and norm denominators stay those of a full pass.

The map is what paths are made of. It acts on split states: the rows of P sum to one, so P(1c^T + V) = 1c^T + P V, and
where the full pass is close to uniform attention P V is π^T V and (P - 1π^T) V, each with all its digits.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    ScaledArray,
    find_common_exponent,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import (
    SplitParts,
    SplitState,
    add_skip_connection,
    subtract_mean_over_features,
)
from attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row import Logits
from attncli.networks.ablation_variants import AblationSwitches
from attncli.networks.block_forward import (
    APART,
    SAFE,
    apply_attention,
    compute_attention_logits,
    compute_plain_attention,
    compute_split_attention,
    merge_head_outputs,
    project_states_per_head,
    run_block,
)
from attncli.networks.network_spec import NORM_EPSILON, NetworkSpec
from attncli.networks.network_weights import Layer

LARGEST_EXPONENT = 400
"""log2 of states whose squares stay inside float range."""


class AttentionWithFrozenMaps:
    """X ↦ Σ_h P_h X W_h for some heads of a layer."""

    def __init__(
        self, seen: SplitState, logits: Logits, layer: Layer, rounds: int, needed: bool
    ) -> None:
        self.attention_input = seen
        """The attention's input in the full pass: it set the weights and the gates."""
        self.logits = logits
        self.layer = layer
        self.rounds = rounds
        self.needed = needed
        """Whether only this branch preserves the residual, so that one without digits must not be passed on."""

    def __call__(self, x: SplitState) -> SplitParts:
        values = project_states_per_head(x.parts, self.layer.w_v)
        heads = self.apply_attention_weights(values.varying)
        heads = heads._replace(common=heads.common + values.common)
        return merge_head_outputs(heads, self.attention_input, self.layer._replace(b_o=None))

    def apply_attention_weights(self, values: ScaledArray) -> SplitParts:
        """P_h V [head, token, value] for what varies between tokens."""
        if values.is_zero():
            return SplitParts(make_scaled_array(np.zeros_like(values.mantissa[:, :1])), values)
        if not self.attention_input.plain:
            return compute_split_attention(self.logits, values, self.rounds, self.needed)
        varying = compute_plain_attention(self.logits, values, self.rounds, remove_outlier=False)
        return SplitParts(make_scaled_array(np.zeros_like(values.mantissa[:, :1])), varying)

    def select_head_of_layer(self, index: int) -> "AttentionWithFrozenMaps":
        """P_h X W_h of one head."""
        one = slice(index, index + 1)
        logits, layer = self.logits, self.layer
        return AttentionWithFrozenMaps(
            self.attention_input,
            logits._replace(
                reference=select_heads_of_array(logits.reference, one),
                queries=select_heads_of_array(logits.queries, one),
                keys=select_heads_of_array(logits.keys, one),
                bias=None if logits.bias is None else logits.bias[one],
            ),
            layer._replace(
                w_v=layer.w_v[one],
                w_o=layer.w_o[one],
                b_v=None if layer.b_v is None else layer.b_v[one],
                w_g=None if layer.w_g is None else layer.w_g[one],
            ),
            self.rounds,
            self.needed,
        )

    def apply_attention_map_of_head(self, matrix: SplitState) -> SplitState:
        """P_h M of one head, for any matrix M [token, column]."""
        found = self.apply_attention_weights(
            matrix.varying.apply_layout_change(lambda each: each[None])
        )
        common = matrix.common + found.common.apply_layout_change(lambda each: each[0, 0])
        return SplitState(
            common, found.varying.apply_layout_change(lambda each: each[0]), plain=False
        )

    def value_bias_term(self) -> SplitParts | None:
        """The contribution of the value biases, once weighted; None without any."""
        b_v = self.layer.b_v
        if b_v is None:
            return None
        varying = make_scaled_array(np.zeros((len(b_v), self.attention_input.tokens, b_v.shape[1])))
        return merge_head_outputs(
            SplitParts(make_scaled_array(b_v[:, None, :]), varying),
            self.attention_input,
            self.layer._replace(b_o=None),
        )

    def output_bias_term(self) -> SplitParts | None:
        """The contribution of the output bias; None without one."""
        b_o = self.layer.b_o
        if b_o is None:
            return None
        return SplitParts(
            make_scaled_array(b_o),
            make_scaled_array(np.zeros((self.attention_input.tokens, len(b_o)))),
        )


def select_heads_of_array(array: ScaledArray, heads: slice) -> ScaledArray:
    return array.map_linearly(lambda each: each[heads])


class NormWithFrozenScale:
    """x ↦ (x - mean) / σ, or x / σ, with every token's σ that of the full pass."""

    def __init__(self, seen: SplitState, centre: bool) -> None:
        self.centre = centre
        self.scale = compute_inverse_norm_scale(seen, centre)

    def __call__(self, x: SplitState) -> SplitState:
        common, varying = (
            subtract_mean_over_features(part) if self.centre else part for part in x.parts
        )
        shared, own = self.scale
        across = own * common.apply_layout_change(lambda row: row[None])
        within = (shared + own) * varying
        return SplitState(shared * common, across + within, plain=False)


def compute_inverse_norm_scale(seen: SplitState, centre: bool) -> SplitParts:
    """1/σ of every token [token, 1], its common part that of the common row.

    1/σ_i - 1/σ_c = (σ_c² - σ_i²) / (σ_c σ_i (σ_c + σ_i)) and σ_i² - σ_c² = 2 mean(c V_i) + mean(V_i²): no cancellation.
    """
    common, varying = (subtract_mean_over_features(part) if centre else part for part in seen.parts)
    if abs(find_common_exponent(common, varying)) > LARGEST_EXPONENT:
        raise InputError("values leave the range of squares: change `init_scale`.")
    c, v = common.value(), varying.value()
    sigma = np.sqrt(np.mean((c + v) ** 2, axis=1, keepdims=True) + NORM_EPSILON)
    if seen.plain:
        shared = float(np.mean(1.0 / sigma))
        return SplitParts(
            make_scaled_array(np.full(1, shared)), make_scaled_array(1.0 / sigma - shared)
        )
    sigma_c = np.sqrt(np.mean(c * c) + NORM_EPSILON)
    change = make_scaled_array(
        average_product_over_features(varying.mantissa, 2.0 * c), varying.exponent
    ) + make_scaled_array(
        average_product_over_features(varying.mantissa, varying.mantissa), 2 * varying.exponent
    )
    own = change * (-1.0 / (sigma_c * sigma * (sigma_c + sigma)))
    return SplitParts(make_scaled_array(np.full(1, 1.0 / sigma_c)), own)


def average_product_over_features(rows: Array, other: Array) -> Array:
    """The mean over features of the product [token, 1]."""
    found: Array = np.mean(rows * other, axis=1, keepdims=True)
    return found


class LayerWithFrozenMaps:
    """X ↦ N(X + attention(N(X))), each part there or not, as a linear map plus a bias."""

    def __init__(
        self,
        attend: AttentionWithFrozenMaps,
        before: NormWithFrozenScale | None,
        after: NormWithFrozenScale | None,
        skip: bool,
    ) -> None:
        self.attend = attend
        self.before = before
        self.after = after
        self.skip = skip

    def apply_attention_branch(self, x: SplitState, head: int | None = None) -> SplitState:
        """The attention branch alone, through all heads or one."""
        attend = self.attend if head is None else self.attention_branch_per_head[head]
        normed = x if self.before is None else self.before(x)
        return self.apply_output_norm_layer(
            SplitState(*attend(normed.to_split_form()), plain=False)
        )

    @cached_property
    def attention_branch_per_head(self) -> list[AttentionWithFrozenMaps]:
        return [
            self.attend.select_head_of_layer(index) for index in range(len(self.attend.layer.w_v))
        ]

    def apply_skip_connection(self, x: SplitState) -> SplitState:
        """The skip connection alone."""
        return self.apply_output_norm_layer(x.to_split_form())

    def apply_layer_with_fixed_maps(self, x: SplitState) -> SplitState:
        """Branch and skip, where there are both."""
        through = self.apply_attention_branch(x)
        return add_split_states(self.apply_skip_connection(x), through) if self.skip else through

    def compute_value_bias_contribution(self, head: int | None = None) -> SplitState | None:
        """The contribution of the value biases, through all heads or one."""
        attend = self.attend if head is None else self.attention_branch_per_head[head]
        return self.apply_output_norm_to_parts(attend.value_bias_term())

    def compute_output_bias_contribution(self) -> SplitState | None:
        return self.apply_output_norm_to_parts(self.attend.output_bias_term())

    def compute_bias_contribution(self) -> SplitState | None:
        """The contribution of all biases of this layer."""
        of_values, of_output = (
            self.compute_value_bias_contribution(),
            self.compute_output_bias_contribution(),
        )
        if of_values is None or of_output is None:
            return of_values or of_output
        return add_split_states(of_values, of_output)

    def apply_output_norm_to_parts(self, parts: SplitParts | None) -> SplitState | None:
        return (
            None if parts is None else self.apply_output_norm_layer(SplitState(*parts, plain=False))
        )

    def apply_output_norm_layer(self, x: SplitState) -> SplitState:
        return x if self.after is None else self.after(x)


def add_split_states(first: SplitState, second: SplitState) -> SplitState:
    return add_skip_connection(first, second.parts)


def run_layer_and_fix_attention_maps(
    state: SplitState, layer: Layer, spec: NetworkSpec, switches: AblationSwitches
) -> tuple[SplitState, LayerWithFrozenMaps]:
    """Compute the next state of an attention-only network, and the layer frozen as it ran for that.

    The frozen weights take the plain or the split form by the rule that the full pass follows.
    """
    switches = replace(switches, mlp=False, mlp_skip=False)
    following = run_block(state, layer, spec, switches)
    plain = (
        state.log2_residual_relative_to_states > APART
        and following.log2_residual_relative_to_states > SAFE
    )
    form = state.to_plain_form() if plain else state.to_split_form()
    before = fix_norm_statistics(form, spec) if spec.norm_position == "pre" else None
    seen = form if before is None else prepare_attention_input(before, form)
    logits = compute_attention_logits(seen, layer, spec)
    frozen = AttentionWithFrozenMaps(
        seen, logits, layer, spec.sinkhorn_rounds, needed=not switches.skip
    )
    after = None
    if spec.norm_position == "post" and spec.norm != "none":
        update = apply_attention(seen, layer, spec, switches)
        summed = (
            add_skip_connection(seen, update) if switches.skip else SplitState(*update, seen.plain)
        )
        after = fix_norm_statistics(summed, spec)
    return following, LayerWithFrozenMaps(frozen, before, after, switches.skip)


def fix_norm_statistics(state: SplitState, spec: NetworkSpec) -> NormWithFrozenScale | None:
    return None if spec.norm == "none" else NormWithFrozenScale(state, centre=spec.norm == "layer")


def prepare_attention_input(norm: NormWithFrozenScale, form: SplitState) -> SplitState:
    """The attention's input, in the form of the state."""
    return norm(form).to_plain_form() if form.plain else norm(form)
