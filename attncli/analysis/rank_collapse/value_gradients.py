"""Gradients of attention alone: ‖∂X_L/∂W_V,l‖_F with attention weights fixed ("Mind the Gap",
2024)."""

from collections.abc import Iterator, Mapping, Sequence

from attncli.analysis.means_and_confidence_intervals import NOTHING, summarize_values
from attncli.analysis.rank_collapse.network_variant_runs import (
    run_block_or_none_if_residual_is_lost,
)
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.networks.ablation_variants import AblationSwitches
from attncli.networks.network_weights import Network
from attncli.networks.one_head_attention_layer import (
    compute_input_independent_map,
    compute_value_gradient_norms,
    is_layer_linear_in_input,
)
from attncli.records import NOT_APPLICABLE, Definition, Row, Scalar

GRADIENT = "log10_value_gradient"
DEFINITION = Definition(
    "log10",
    "log10 of ‖∂X_L/∂W_V,l‖_F with attention weights frozen, of the last state by the values' weights of layer l.",
)
NOT_COVERED = f"{NOT_APPLICABLE}a product of two norms only with one head, attention alone, no norm and no gates"
UNKNOWN = "rounding has swallowed a state, or the gradient is zero"


def build_value_gradient_rows(
    networks: Sequence[Network],
    variants: Mapping[str, AblationSwitches],
    keys: Mapping[str, Scalar] = NOTHING,
) -> Iterator[Row]:
    """Rows of every variant and layer, over networks that differ only in their seed."""
    for variant, switches in variants.items():
        if not is_layer_linear_in_input(networks[0].spec, switches):
            yield Row(GRADIENT, None, "log10", variant=variant, note=NOT_COVERED, keys=dict(keys))
            continue
        found = [
            compute_value_gradients_of_network(network, switches, variant) for network in networks
        ]
        for layer in range(networks[0].spec.layers):
            values = [one[layer] for one in found if one]
            values = values if len(values) == len(found) else [float("inf")]
            yield summarize_values(
                GRADIENT, "log10", values, UNKNOWN, keys, variant=variant, layer=layer
            )


def compute_value_gradients_of_network(
    network: Network, switches: AblationSwitches, variant: str
) -> list[float]:
    """Empty where a state is not known."""
    spec = network.spec
    state: SplitState | None = SplitState.from_states(network.embeddings())
    maps: list[Array] = []
    states: list[Array] = []
    weights: list[tuple[Array, Array]] = []
    for index in range(spec.layers):
        layer = network.layer_weights(index)
        if state is None:
            return []
        maps.append(compute_input_independent_map(state, layer, spec, switches))
        states.append(state.to_plain_form().states.value())
        weights.append((layer.w_v[0], layer.w_o[0]))
        state = run_block_or_none_if_residual_is_lost(
            state, layer, spec, switches, f"{variant}, layer {index}"
        )
    return compute_value_gradient_norms(maps, states, weights)
