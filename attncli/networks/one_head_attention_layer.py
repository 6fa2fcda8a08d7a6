"""A one-headed layer of attention alone with fixed weights: a map A [query, key] and a matrix W = W_V W_O."""

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.common_row_arithmetic.softmax_attention import compute_softmax_attention_output
from attncli.networks.ablation_variants import AblationSwitches
from attncli.networks.block_forward import compute_attention_logits
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import Layer


def is_layer_linear_in_input(spec: NetworkSpec, switches: AblationSwitches) -> bool:
    """Whether a layer is X ↦ A X W, so that a gradient is a product of two norms."""
    alone = not (switches.skip or switches.mlp)
    return alone and spec.heads == 1 and spec.norm == "none" and spec.attention == "softmax"


def compute_input_independent_map(
    state: SplitState, layer: Layer, spec: NetworkSpec, switches: AblationSwitches
) -> Array:
    """The map A, or A - 11^T/n, in plain numbers."""
    logits = compute_attention_logits(state.to_plain_form(), layer, spec)
    eye = make_scaled_array(np.eye(spec.tokens)[None])
    outlier = 1.0 / spec.tokens if switches.remove_outlier else 0.0
    found: Array = compute_softmax_attention_output(logits, eye, minus=outlier).value()[0]
    return found


def compute_value_gradient_norms(
    maps: list[Array], states: list[Array], layers: list[tuple[Array, Array]]
) -> list[float]:
    """log10 ‖∂X_L/∂W_V,l‖_F for every layer l: of X_L = A_L … A_l X_(l-1) W_V,l (W_O,l W_(l+1) … W_L) it is ‖left‖_F ‖right‖_F.

    `layers`: W_V [feature, value] and W_O [value, feature] of each.
    """
    tokens, width = states[0].shape
    left, right = np.eye(tokens), np.eye(width)
    found = []
    for weights, state, (into, out) in reversed(list(zip(maps, states, layers, strict=True))):
        left = left @ weights
        sizes = np.linalg.norm(left @ state), np.linalg.norm(out @ right)
        with np.errstate(divide="ignore"):
            found.append(float(np.log10(sizes).sum()))
        right = into @ out @ right
    return found[::-1]
