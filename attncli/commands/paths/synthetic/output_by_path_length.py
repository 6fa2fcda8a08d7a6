"""The output of a network as a sum of terms, one for each path length."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from attncli.analysis.rank_collapse.network_variant_runs import estimate_network_run_memory
from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import make_scaled_array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.networks.ablation_variants import AblationSwitches
from attncli.networks.frozen_attention_layers import (
    LayerWithFrozenMaps,
    add_split_states,
    run_layer_and_fix_attention_maps,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import Network
from attncli.resource_limits import require_memory

Terms = dict[int, SplitState]
"""Length → the sum of all paths of that length; lengths without any are left out."""


class PathLengthDecomposition(NamedTuple):
    output: SplitState
    terms: Terms


def require_memory_for_residual_streams(
    spec: NetworkSpec, streams: int, layers_in_memory: int = 1
) -> None:
    """Refuse sizes that do not fit in memory: old and new streams of states, and the frozen layers."""
    states = 2 * 8 * streams * spec.tokens * spec.width
    output_bytes = layers_in_memory * (
        spec.layer_weight_bytes + 2 * 8 * spec.tokens * spec.heads * spec.head_width
    )
    needed = estimate_network_run_memory(spec, variants=1) + states + output_bytes
    require_memory(needed, "This decomposition", "lower `tokens`, `width` or `layers`")


def iterate_layers_with_fixed_maps(
    network: Network, switches: AblationSwitches, where: str
) -> Iterator[tuple[SplitState, LayerWithFrozenMaps]]:
    """Every layer as the full pass leaves it frozen, with the state that comes out of it."""
    state = SplitState.from_states(network.embeddings())
    for index in range(network.spec.layers):
        try:
            state, frozen = run_layer_and_fix_attention_maps(
                state, network.layer_weights(index), network.spec, switches
            )
        except InputError as error:
            raise type(error)(f"{where}, layer {index}: {error}") from None
        yield state, frozen


def decompose_network_output(
    network: Network, switches: AblationSwitches, where: str, advance: Callable[[], None]
) -> PathLengthDecomposition:
    """T_k ← T_k + Σ_h P_h T_(k-1) W_h, layer by layer: as many partial streams as lengths, whatever the number of paths."""
    require_memory_for_residual_streams(network.spec, streams=network.spec.layers + 1)
    output = SplitState.from_states(network.embeddings())
    terms: Terms = {0: output.to_split_form()}
    for state, frozen in iterate_layers_with_fixed_maps(network, switches, where):
        terms, output = propagate_path_terms(terms, frozen), state
        advance()
    return PathLengthDecomposition(output, terms)


def propagate_path_terms(terms: Terms, frozen: LayerWithFrozenMaps) -> Terms:
    """The terms after one more layer; a bias starts a path where it is added, so the values' biases
    go through one head."""
    result: Terms = {}

    def accumulate_term_of_path_length(length: int, x: SplitState | None) -> None:
        if x is not None:
            result[length] = add_split_states(result[length], x) if length in result else x

    for length, term in terms.items():
        if frozen.skip:
            accumulate_term_of_path_length(length, frozen.apply_skip_connection(term))
        accumulate_term_of_path_length(length + 1, frozen.apply_attention_branch(term))
    accumulate_term_of_path_length(0, frozen.compute_output_bias_contribution())
    accumulate_term_of_path_length(1, frozen.compute_value_bias_contribution())
    return result


def sum_path_length_terms(terms: Terms) -> SplitState:
    """Σ over lengths, the longest first: mostly the smallest."""
    lengths = sorted(terms, reverse=True)
    result = terms[lengths[0]]
    for length in lengths[1:]:
        result = add_split_states(result, terms[length])
    return result


def subtract_common_and_residual_parts(first: SplitState, second: SplitState) -> SplitState:
    """first - second, common and varying parts each by themselves."""
    return add_split_states(
        first.to_split_form(), negate_common_and_residual_parts(second.to_split_form())
    )


def negate_common_and_residual_parts(state: SplitState) -> SplitState:
    common, varying = (make_scaled_array(-part.mantissa, part.exponent) for part in state.parts)
    return SplitState(common, varying, plain=False)


def output_share_by_inner_product(part: SplitState, whole: SplitState) -> float:
    """⟨part, whole⟩ / ‖whole‖²: shares of parts that add up to the whole add up to 1."""
    own, other = part.states, whole.states
    cross = float(np.vdot(own.mantissa, other.mantissa))
    square = float(np.vdot(other.mantissa, other.mantissa))
    return float(
        make_scaled_array(np.full(1, cross / square), own.exponent - other.exponent).value()[0]
    )
