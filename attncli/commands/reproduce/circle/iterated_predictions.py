"""A trained network applied again and again to its own output, in split form.

The points' mean and their difference from it are computed separately, so that their distance is
resolved far below the smallest float.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from attncli.commands.reproduce.circle.arc_positions import compute_arc_positions
from attncli.commands.reproduce.circle.network_design import NORM_EPSILON, NetworkDesign
from attncli.errors import BelowResolution
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import (
    SplitParts,
    SplitState,
    add_bias_to_common_part,
    add_skip_connection,
    normalise_features_of_tokens,
)
from attncli.networks.block_forward import apply_attention, apply_mlp, run_sub_block
from attncli.networks.network_weights import Layer

Weights = Mapping[str, Array]

NO_MLP = np.zeros((0, 0))


def iterate_predictions(
    design: NetworkDesign, weights: Weights, steps: int
) -> Iterator[SplitState]:
    """The start, and the prediction of every step."""
    state = SplitState.from_states(compute_arc_positions(1)[0])
    yield state
    for _ in range(steps):
        found = predict_next_points(state, design, weights)
        yield found
        state = (
            add_skip_connection(state.to_split_form(), found.to_split_form().parts)
            if design.running_sum
            else found
        )


def predict_next_points(states: SplitState, design: NetworkDesign, weights: Weights) -> SplitState:
    """Apply the network once; points that rounding cannot separate stay one point from there on."""
    step = partial(apply_circle_network, design=design, weights=weights)
    try:
        return run_sub_block(states, step, skip=False, spec=design.synthetic_network_spec)
    except BelowResolution:
        return run_sub_block(
            merge_points_at_mean(states), step, skip=False, spec=design.synthetic_network_spec
        )


def merge_points_at_mean(state: SplitState) -> SplitState:
    """Move both points to their mean."""
    common, varying = state.to_split_form().parts
    return SplitState(common, make_scaled_array(np.zeros_like(varying.mantissa)), plain=False)


def apply_circle_network(states: SplitState, design: NetworkDesign, weights: Weights) -> SplitParts:
    """Apply the network and return the same form (split or plain) as the input."""
    layer, switches, spec = (
        build_synthetic_network_layer(weights),
        design.switches,
        design.synthetic_network_spec,
    )
    hidden = SplitState(
        *add_bias_to_common_part(states.parts @ weights["w_embed"], weights["b_embed"]),
        states.plain,
    )
    hidden = apply_layer_norm(hidden, "embedding", weights)
    update = apply_attention(hidden, layer, spec, switches)
    hidden = apply_layer_norm(
        add_skip_connection_if_enabled(hidden, update, switches.skip), "attention", weights
    )
    if switches.mlp:
        update = apply_mlp(hidden, layer, spec)
        hidden = apply_layer_norm(
            add_skip_connection_if_enabled(hidden, update, switches.mlp_skip), "mlp", weights
        )
    return add_bias_to_common_part(hidden.parts @ weights["w_readout"], weights["b_readout"])


def add_skip_connection_if_enabled(
    hidden: SplitState, update: SplitParts, skip: bool
) -> SplitState:
    return add_skip_connection(hidden, update) if skip else SplitState(*update, hidden.plain)


def apply_layer_norm(state: SplitState, name: str, weights: Weights) -> SplitState:
    """Layer norm with its gain and shift."""
    gain = make_scaled_array(weights[f"{name}_gain"])
    common, varying = normalise_features_of_tokens(state, NORM_EPSILON, centre=True).parts
    grown = SplitParts(common * gain, varying * gain)
    return SplitState(*add_bias_to_common_part(grown, weights[f"{name}_shift"]), state.plain)


def build_synthetic_network_layer(weights: Weights) -> Layer:
    """Attention and MLP as a synthetic network has them."""
    found = {name: weights[name] for name in Layer._fields if name in weights}
    return Layer(**{"w_in": NO_MLP, "w_out": NO_MLP, **found})
