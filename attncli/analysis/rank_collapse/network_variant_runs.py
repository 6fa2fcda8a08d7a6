"""Run variants of a network side by side, and measure every state."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attncli.analysis.rank_collapse.metrics_over_layers import StateMetrics, Trajectory
from attncli.errors import BelowResolution, InputError
from attncli.maths import rank_collapse_bound
from attncli.maths.common_row_arithmetic.activation_functions import STEEPEST
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import log10_of_scaled
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row import BLOCK_ELEMENTS
from attncli.networks.ablation_variants import AblationSwitches, is_collapse_bound_applicable
from attncli.networks.block_forward import run_block
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import Layer, Network
from attncli.resource_limits import refuse_too_many_token_pairs, require_memory


def refuse_work_of_many_days(specs: Sequence[NetworkSpec], seeds: int, variants: int) -> None:
    """Refuse a run that would take more than days, before its first network is generated."""
    pairs = seeds * variants * sum(spec.forward_pass_cost for spec in specs)
    sizes = "lower `tokens`, `layers`, `heads`"
    advice = (
        f"{sizes}, `seeds` or the number of `variants`" if variants > 1 else f"{sizes} or `seeds`"
    )
    refuse_too_many_token_pairs(pairs, "This run", advice)


def run_network_in_all_variants(
    network: Network,
    variants: Mapping[str, AblationSwitches],
    metrics: Sequence[str],
    tick: Callable[[], None],
    over: int = 1,
    logits: bool = False,
) -> dict[str, Trajectory]:
    """Run all variants in parallel, so that each layer's weights are generated or read once;
    `over`: blocks between states.

    `logits`: also measure the range of a row's logits, where the theorem applies.
    """
    spec = network.spec
    require_memory(
        estimate_network_run_memory(spec, len(variants)),
        "This network",
        "lower `tokens` or `width`",
    )
    meters = StateMetrics(metrics)
    start = SplitState.from_states(network.embeddings())
    states: dict[str, SplitState | None] = dict.fromkeys(variants, start)
    earlier = {name: deque([start], maxlen=over) for name in variants}
    """The last states of each variant: a step leads from the first of them, once there are `over`."""
    first = meters.measure_state(start) | meters.measure_step(None, start)
    result = {
        name: Trajectory({metric: [value] for metric, value in first.items()}, [])
        for name in variants
    }
    for index in range(spec.layers):
        layer = network.layer_weights(index)
        for name, switches in variants.items():
            if logits and is_collapse_bound_applicable(spec, switches):
                result[name].log10_logit_ranges.append(
                    log10_logit_range_of_residual(states[name], layer)
                )
            state = run_block_or_none_if_residual_is_lost(
                states[name], layer, spec, switches, f"{name}, layer {index}"
            )
            states[name] = state
            found = dict.fromkeys(result[name].values, math.nan)
            if state is not None:
                before = earlier[name][0] if len(earlier[name]) == over else None
                found = meters.measure_state(state) | meters.measure_step(before, state)
                earlier[name].append(state)
            for metric, value in found.items():
                result[name].values[metric].append(value)
            tick()
        for name, constant in log10_bound_factors_of_layer(layer, spec, variants).items():
            result[name].log10_constants.append(constant)
    return result


def run_block_or_none_if_residual_is_lost(
    state: SplitState | None,
    layer: Layer,
    spec: NetworkSpec,
    switches: AblationSwitches,
    where: str,
) -> SplitState | None:
    """The next state; None from the layer on where the residual is lost to rounding."""
    try:
        return None if state is None else run_block(state, layer, spec, switches)
    except BelowResolution:
        return None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def log10_logit_range_of_residual(state: SplitState | None, layer: Layer) -> float:
    """log10 of the largest |E_ij - E_ij'| over heads, E = R W_QK R^T/√d of the residual R; nan where that is lost."""
    if state is None:
        return math.nan
    found = []
    for w_q, w_k in zip(layer.w_q, layer.w_k, strict=True):
        query, key = state.residual_to_token_mean @ w_q, state.residual_to_token_mean @ w_k
        widest = float(np.ptp(query.mantissa @ key.mantissa.T, axis=1).max())
        found.append(
            log10_of_scaled(widest / math.sqrt(w_q.shape[1]), query.exponent + key.exponent)
        )
    return max(found)


def log10_bound_factors_of_layer(
    layer: Layer, spec: NetworkSpec, variants: Mapping[str, AblationSwitches]
) -> dict[str, float]:
    """log10 of K for one layer of every variant that the theorem covers; they share the attention's part."""
    covered = {
        name: switches
        for name, switches in variants.items()
        if is_collapse_bound_applicable(spec, switches)
    }
    if not covered:
        return {}
    attention = rank_collapse_bound.compute_log10_attention_bound_factor(
        layer.w_q, layer.w_k, layer.w_v, layer.w_o
    )
    found = {}
    for name, switches in covered.items():
        constant = attention
        if switches.mlp:
            slope = STEEPEST[spec.activation]
            constant += rank_collapse_bound.compute_log10_mlp_lipschitz_bound(
                layer.w_in, layer.w_out, slope, switches.mlp_skip
            )
        found[name] = constant
    return found


def estimate_network_run_memory(spec: NetworkSpec, variants: int) -> int:
    """Upper estimate in bytes: a layer's weights, the states, a layer's intermediate arrays, logits
    by blocks."""
    wide = (
        6 * spec.heads * spec.head_width
        + 4 * spec.mlp_hidden_size
        + (4 + 2 * variants) * spec.width
    )
    logits = spec.tokens**2 if spec.sinkhorn_rounds else max(BLOCK_ELEMENTS, spec.tokens)
    return 2 * spec.layer_weight_bytes + 8 * (spec.tokens * wide + 8 * logits)
