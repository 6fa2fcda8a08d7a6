"""A trained network applied again and again to its own output, in split form.

The points' common place and what sets them apart are carried each by itself, so that their distance is followed far
below the smallest float.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from attncli.commands.reproduce.circle.arcs import places
from attncli.commands.reproduce.circle.design import NORM_EPSILON, Design
from attncli.errors import Unresolved
from attncli.maths.residuals.scaled import Array, product, scaled
from attncli.maths.residuals.split import Split, SplitParts, normalised, together, with_bias
from attncli.networks.layer import attention, mlp, sub_block
from attncli.networks.weights import Layer

Weights = Mapping[str, Array]

NO_MLP = np.zeros((0, 0))


def recurrence(design: Design, weights: Weights, steps: int) -> Iterator[Split]:
    """The start, and the prediction of every step."""
    given = Split.of(places(1)[0])
    yield given
    for _ in range(steps):
        found = predicted(given, design, weights)
        yield found
        given = together(given.split(), found.split().parts) if design.running_sum else found


def predicted(given: Split, design: Design, weights: Weights) -> Split:
    """One application; points that rounding cannot tell apart are one point from there on."""
    step = partial(prediction, design=design, weights=weights)
    try:
        return sub_block(given, step, skip=False, spec=design.spec)
    except Unresolved:
        return sub_block(united(given), step, skip=False, spec=design.spec)


def united(state: Split) -> Split:
    """Both points where their mean is."""
    common, varying = state.split().parts
    return Split(common, scaled(np.zeros_like(varying.mantissa)), plain=False)


def prediction(given: Split, design: Design, weights: Weights) -> SplitParts:
    """The network, in the form of what it is given."""
    layer, switches, spec = layer_of(weights), design.switches, design.spec
    hidden = Split(*with_bias(given.parts @ weights["w_embed"], weights["b_embed"]), given.plain)
    hidden = normed(hidden, "embedding", weights)
    update = attention(hidden, layer, spec, switches)
    hidden = normed(joined(hidden, update, switches.skip), "attention", weights)
    if switches.mlp:
        update = mlp(hidden, layer, spec)
        hidden = normed(joined(hidden, update, switches.mlp_skip), "mlp", weights)
    return with_bias(hidden.parts @ weights["w_readout"], weights["b_readout"])


def joined(hidden: Split, update: SplitParts, skip: bool) -> Split:
    return together(hidden, update) if skip else Split(*update, hidden.plain)


def normed(state: Split, name: str, weights: Weights) -> Split:
    """Layer norm with its gain and shift."""
    gain = scaled(weights[f"{name}_gain"])
    common, varying = normalised(state, NORM_EPSILON, centre=True).parts
    grown = SplitParts(product(common, gain), product(varying, gain))
    return Split(*with_bias(grown, weights[f"{name}_shift"]), state.plain)


def layer_of(weights: Weights) -> Layer:
    """Attention and MLP as a synthetic network has them."""
    found = {name: weights[name] for name in Layer._fields if name in weights}
    return Layer(**{"w_in": NO_MLP, "w_out": NO_MLP, **found})
