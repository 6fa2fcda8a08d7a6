"""From a curve of log10 r over layers: the order of convergence, and the regime in words."""

import itertools
import math
from collections.abc import Sequence

STEADY = -0.1
"""Decades a layer: two steps in a row at least this steep make an order; flatter ones are noise."""

FEWEST_LAYERS = 3
"""Below this many layers a regime cannot be told from its start."""

CLIMB = 0.05
"""Decades a layer above which a curve is said to grow."""


def orders(curve: Sequence[float]) -> list[float | None]:
    """p_l = Δlog r_l / Δlog r_(l-1) for every state; None where the curve does not fall steadily.

    3 is the doubly exponential law of pure attention, 1 a constant factor a layer.
    """
    steps = [after - before for before, after in itertools.pairwise(curve)]
    found: list[float | None] = [None, None]
    for before, after in itertools.pairwise(steps):
        steady = -math.inf < after <= STEADY and before <= STEADY
        found.append(after / before if steady else None)
    return found[: len(curve)]


def late_order(curve: Sequence[float]) -> float | None:
    """The geometric mean of the last orders, over at most half of the layers: a long step and a short one make 1.

    Counted from the end for as long as the curve falls steadily; None where it ends otherwise.
    """
    late = orders(curve)[max(2, len(curve) // 2) :]
    last = list(itertools.takewhile(lambda p: p is not None, reversed(late)))
    known = [p for p in last if p is not None]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None


def late_slope(curve: Sequence[float]) -> float:
    """Decades a layer over the later half of the layers."""
    middle = (len(curve) - 1) // 2
    return (curve[-1] - curve[middle]) / (len(curve) - 1 - middle)


POWERS = {2: "quadratic", 3: "cubic", 4: "quartic"}


def regime(
    curve: Sequence[float], support: str, drag: str, fewest_layers: int = FEWEST_LAYERS
) -> str:
    """How log10 r behaves, in words.

    `support` names what may hold the residual up, such as "the skip"; `drag` what keeps the rate linear.
    """
    if math.isnan(curve[-1]):
        layer = next(index for index, value in enumerate(curve) if math.isnan(value))
        return f"not resolved from layer {layer} on: tokens coincide to the last bit"
    if curve[-1] == -math.inf:
        layer = next(index for index, value in enumerate(curve) if value == -math.inf)
        return f"rank 1 exactly, or beyond 10^-(10^308), from layer {layer} on"
    if len(curve) <= fewest_layers:
        return "too few layers to tell"
    order = late_order(curve)
    if order is not None and order > 1.5:
        return f"{POWERS.get(round(order), f'order {order:.2g}')}: doubly exponential"
    slope = late_slope(curve)
    factor = f"×{10**slope:.2g} a layer"
    if slope <= STEADY:
        return f"linear: {factor}" + (f" ({drag})" if drag else "")
    if slope >= CLIMB:
        return f"grows: {factor}"
    return f"held up by {support}: {factor}" if support else f"nearly flat: {factor}"
