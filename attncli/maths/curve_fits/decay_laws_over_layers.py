"""Which law does a curve of log10 r follow, and where? Explanations of the whole curve, compared by their errors.

An explanation cuts the layers into one to three pieces; in each of them a layer either takes away the same number of
decades (a constant factor: level, rising or falling) or a power of what the layer before took (doubly exponential).
All of them predict the same data, what each layer does to log10 r, so their errors can be compared:

* on the scale asinh(step / 0.1 decades): layers of one law differ by a part of what they do where they do much, and by
  a fixed amount where they do next to nothing. One error then serves laws whose steps range over five decades;
* by a Bayesian information criterion: errors against the number of constants. A place where the law changes counts as
  two of them, as it was chosen among all layers. The size of the errors is not known but not quite unknown either
  (`USUAL`): without that a curve of six layers is "explained" by any law with five constants;
* the criterion must be better than the next simpler explanation's by `CLEARLY`.

A power is the strongest claim, so errors do not decide it alone: r must have collapsed on its layers, its last points must
be near it one by one, and no single point may decide it (`does_curve_show_collapse`, `is_power_law_supported`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TINY_STEP = 0.1
"""Decades: of steps much below it the differences count, of those above it the ratios."""

USUAL = 0.25
"""How far layers that follow one law usually are from it, on the scale of the steps: a quarter of a large step."""
SURE = 3.0
"""How many layers that is worth."""

FEWEST_POINTS = 4
"""The fewest points of a law: three points make one ratio of steps, which is a power whatever they are."""

POWERS = np.linspace(1.5, 6.0, 46)
"""Orders that are tried; below the first a power cannot be distinguished from a constant factor over a few layers."""

COLLAPSED = 1.0
"""Decades by which r must fall, and be below 1, for a power."""

NEAR = 0.2
"""How far the later steps may be from their power, root mean square: a fifth of what it predicts."""

SAME_ORDER = 1.25
"""By what factor the order may change when one point is left out."""

CHANGE = 2
"""Constants that a change of law is worth."""

MOST_PLACES = 16
"""Of which a change is looked for; in longer curves only at every second, third, … layer, and at those of both ends."""

MOST_LEFT_OUT = 24
"""Points up to which each one is left out in turn."""

LARGE = 300.0
"""From here on asinh(e^x) is x + log 2 to the last bit, and e^x is still far from the largest float."""

CLEARLY = 2.0
"""Twice the logarithm of the odds from which more constants are believed: e to 1."""


class CurveSteps:
    """The steps from layer to layer: differences of log10 r, where it is known."""

    def __init__(self, layers: tuple[int, ...], values: Array) -> None:
        self.layers = layers
        """Where it is known, one more than there are differences."""
        self.values = values
        """log10 r in these layers."""
        self.decades_between_values = np.diff(values)
        self.layers_between_values = np.diff(layers).astype(float)
        """How many layers each difference spans: more than one where values are unknown."""
        self.decades_per_layer = self.decades_between_values / self.layers_between_values

    @classmethod
    def from_curve(cls, curve: Sequence[float]) -> "CurveSteps":
        known = [layer for layer, value in enumerate(curve) if math.isfinite(value)]
        return cls(tuple(known), np.array([curve[layer] for layer in known]))

    def __len__(self) -> int:
        return len(self.decades_between_values)

    def slice_layers(self, start: int, stop: int) -> "CurveSteps":
        """The steps in a range."""
        return CurveSteps(self.layers[start : stop + 1], self.values[start : stop + 1])

    def leave_out_layer(self, point: int) -> "CurveSteps":
        """The same steps with the value of one layer left out."""
        layers = self.layers[:point] + self.layers[point + 1 :]
        return CurveSteps(layers, np.delete(self.values, point))

    @cached_property
    def asinh_scaled_decades(self) -> Array:
        """The steps on the scale on which errors are compared."""
        return scale_decades_by_asinh(self.decades_between_values)


@dataclass(frozen=True)
class LawPiece:
    """Consecutive layers that follow one law."""

    first: int
    """The state that they begin at, and the one they end at."""
    last: int
    rate: float
    """Decades a layer, on the mean."""
    power: float | None
    """Of doubly exponential decay; None for a constant factor."""
    points: int
    """Known states on it."""


def scale_decades_by_asinh(decades: Array) -> Array:
    """asinh(decades / TINY_STEP), up to the largest float."""
    logarithms = np.log(np.maximum(np.abs(decades), 1e-300))
    sign: Array = np.sign(decades)
    return sign * scale_log_steps_by_asinh(logarithms)


def scale_log_steps_by_asinh(logarithms: Array) -> Array:
    """The same for e^these."""
    exponent = logarithms - math.log(TINY_STEP)
    # numpy has vector code for exp and arcsinh and none for logaddexp, which takes ten times as long.
    found: Array = np.arcsinh(np.exp(np.minimum(exponent, LARGE)))
    return found + np.maximum(exponent - LARGE, 0.0)


class LawFit(NamedTuple):
    """A law fitted to some of the layers."""

    piece: LawPiece
    errors: float
    """Sum of squares on the scale of the steps."""
    constants: int


@dataclass(frozen=True)
class PiecewiseLaw:
    """Pieces that together cover all layers, and their errors."""

    pieces: tuple[LawPiece, ...]
    errors: float
    constants: int

    @property
    def power_law_pieces(self) -> list[LawPiece]:
        return [piece for piece in self.pieces if piece.power is not None]

    def compute_information_criterion(self, steps: int) -> float:
        """Smaller is more credible. The variance is that of the errors and of `SURE` usual ones together."""
        variance = (self.errors + SURE * USUAL**2) / (steps + SURE)
        return (steps + SURE) * math.log(variance) + self.constants * math.log(steps)


@lru_cache(maxsize=64)
def fit_piecewise_law(curve: tuple[float, ...]) -> PiecewiseLaw:
    """Choose the simplest explanation that no other beats clearly; infinite and unknown values are left out."""
    steps = CurveSteps.from_curve(curve)
    best, *others = find_best_law_per_parameter_count(steps)
    for one in others:
        if (
            one.compute_information_criterion(len(steps))
            < best.compute_information_criterion(len(steps)) - CLEARLY
        ):
            best = one
    return best


def find_best_law_per_parameter_count(steps: CurveSteps) -> list[PiecewiseLaw]:
    """The explanation with the smallest errors for each number of constants.

    Support takes a fit for every point, so it is tested where it decides: best first.
    """
    supported = cache(partial(is_power_law_supported, steps))
    best: dict[int, PiecewiseLaw] = {}
    for one in sorted(iter_piecewise_laws(steps), key=lambda one: one.errors):
        if one.constants not in best and all(map(supported, one.power_law_pieces)):
            best[one.constants] = one
    return [best[number] for number in sorted(best)]


def iter_piecewise_laws(steps: CurveSteps) -> Iterator[PiecewiseLaw]:
    """Iterate over explanations: one law; one law after another; a law between two others, such as start, collapse
    and floor."""
    end, places = len(steps), list_candidate_break_layers(len(steps))
    fitted = {
        span: fit_decay_laws_to_layers(steps, *span) for span in combinations((0, *places, end), 2)
    }
    for number in range(3):
        for cuts in combinations(places, number):
            for fits in product(*(fitted[span] for span in pairwise((0, *cuts, end)))):
                if sum(fit.piece.power is not None for fit in fits) <= 1:
                    yield join_fitted_decay_laws(fits)
    for start, stop in combinations(places, 2):
        yield fit_few_layers_at_own_rate(steps, start, stop)


def list_candidate_break_layers(end: int) -> list[int]:
    """A few layers at an end may do what no others do, so none of these is left out."""
    first, last = range(1, FEWEST_POINTS), range(end - FEWEST_POINTS + 1, end)
    within = {*first, *last} & set(range(1, end))
    return sorted(within.union(range(1, end, -(-end // MOST_PLACES))))


def join_fitted_decay_laws(fits: Sequence[LawFit]) -> PiecewiseLaw:
    return PiecewiseLaw(
        tuple(fit.piece for fit in fits),
        math.fsum(fit.errors for fit in fits),
        sum(fit.constants for fit in fits) + CHANGE * (len(fits) - 1),
    )


def fit_decay_laws_to_layers(steps: CurveSteps, start: int, stop: int) -> list[LawFit]:
    """Fit a constant factor, and a power law where the points support one."""
    errors = compute_squared_errors_at_constant_rate(steps, np.arange(start, stop))
    constant = LawFit(make_decay_law_piece(steps, start, stop, None), errors, 1)
    own = steps.slice_layers(start, stop)
    power = fit_power_law_to_steps(own) if does_curve_show_collapse(own, FEWEST_POINTS) else None
    return [constant] if power is None else [constant, power]


def does_curve_show_collapse(steps: CurveSteps, fewest: int) -> bool:
    """Whether r falls by a decade to below 1, is never above 1, and its last steps differ clearly from zero."""
    last = steps.decades_per_layer[1 - fewest :]
    return (
        len(steps) >= fewest - 1
        and float(steps.values.max()) <= 0.0
        and float(steps.values[-1]) <= -COLLAPSED
        and float(steps.values[0] - steps.values[-1]) >= COLLAPSED
        and bool((last <= -TINY_STEP).all())
    )


def is_power_law_supported(steps: CurveSteps, piece: LawPiece) -> bool:
    """Whether the later points are near the law, and it survives leaving out any one point."""
    assert piece.power is not None
    own, order = (
        steps.slice_layers(*map(steps.layers.index, (piece.first, piece.last))),
        piece.power,
    )
    return does_later_half_follow_power_law(own, order) and all(
        is_power_law_stable_without_point(own.leave_out_layer(point), order)
        for point in choose_points_for_leave_one_out(len(own.values))
    )


def choose_points_for_leave_one_out(count: int) -> list[int]:
    """All points of a short curve; of a long one its ends, which weigh most, and a few between.

    All points of 700 layers would be 700 fits of every span, minutes for one curve.
    """
    if count <= MOST_LEFT_OUT:
        return list(range(count))
    ends = {0, 1, *range(count - FEWEST_POINTS + 1, count)}
    return sorted(ends | {count // 3, 2 * count // 3})


def does_later_half_follow_power_law(steps: CurveSteps, order: float) -> bool:
    """Whether the later half (at least `FEWEST_POINTS`) is near the power law, and no earlier step is far above it."""
    shape = compute_power_law_log_steps(steps, np.log([order]))[0]
    ratios = np.log(np.maximum(-steps.decades_between_values, 1e-300)) - shape
    late = ratios[-max(FEWEST_POINTS - 1, len(steps) // 2) :]
    return bool(late.std() <= NEAR and ratios.max() <= late.mean() + 2.0 * NEAR)


def is_power_law_stable_without_point(fewer: CurveSteps, order: float) -> bool:
    """Whether the power law remains, with nearly the same order, when a point is left out."""
    if not does_curve_show_collapse(fewer, FEWEST_POINTS - 1):
        return False
    again = fit_power_law_to_steps(fewer)
    return (
        again is not None
        and again.piece.power is not None
        and abs(math.log(again.piece.power / order)) <= math.log(SAME_ORDER)
        and again.errors < compute_squared_errors_at_constant_rate(fewer, np.arange(len(fewer)))
    )


def make_decay_law_piece(steps: CurveSteps, start: int, stop: int, order: float | None) -> LawPiece:
    first, last = steps.layers[start], steps.layers[stop]
    rate = float(steps.decades_between_values[start:stop].sum()) / (last - first)
    return LawPiece(first, last, rate, order, stop - start + 1)


def compute_squared_errors_at_constant_rate(steps: CurveSteps, which: NDArray[np.intp]) -> float:
    """The squared errors of a constant rate, the mean on the error scale."""
    mean = float(scale_decades_by_asinh(steps.decades_per_layer[which]).mean())
    size = abs(mean) + math.log(max(-math.expm1(-2.0 * abs(mean)), 1e-300) * TINY_STEP / 2.0)
    predicted = math.copysign(1.0, mean) * scale_log_steps_by_asinh(
        size + np.log(steps.layers_between_values[which])
    )
    return float(((steps.asinh_scaled_decades[which] - predicted) ** 2).sum())


def fit_few_layers_at_own_rate(steps: CurveSteps, start: int, stop: int) -> PiecewiseLaw:
    """Fit an episode: a few layers that differ from all others, which share one rate."""
    within = np.arange(len(steps))
    inside = (within >= start) & (within < stop)
    errors = compute_squared_errors_at_constant_rate(
        steps, within[inside]
    ) + compute_squared_errors_at_constant_rate(steps, within[~inside])
    cuts = pairwise((0, start, stop, len(steps)))
    return PiecewiseLaw(
        tuple(make_decay_law_piece(steps, *cut, None) for cut in cuts), errors, 2 + 2 * CHANGE
    )


def fit_power_law_to_steps(steps: CurveSteps) -> LawFit | None:
    """Fit a power law: each layer removes p times as many decades as the one before; p and the first step minimise
    the errors.

    None where the least p that is tried is the best: the layers grow by less.
    """
    errors = compute_least_squared_errors_per_order(
        compute_power_law_log_steps(steps, np.log(POWERS)),
        steps.asinh_scaled_decades,
        -steps.decades_between_values,
    )
    best = int(np.argmin(errors))
    piece = make_decay_law_piece(steps, 0, len(steps), float(POWERS[best]))
    return LawFit(piece, float(errors[best]), 2) if best else None


def compute_power_law_log_steps(steps: CurveSteps, logs: Array) -> Array:
    """For each order, the logarithm of every step, in units of the first one."""
    layers = np.array(steps.layers[:-1], dtype=float) - steps.layers[0]
    found: Array = logs[:, None] * layers + np.log(
        np.expm1(steps.layers_between_values * logs[:, None]) / np.expm1(logs[:, None])
    )
    return found


ROUNDS = 4
"""Of Gauss and Newton, from two starts; the errors are nearly quadratic in the logarithm of the first step."""


def compute_least_squared_errors_per_order(shape: Array, seen: Array, taken: Array) -> Array:
    """Per order, the squares of `seen` against -asinh(e^(a + shape) / TINY_STEP), least over a."""
    falls = taken > 0.0
    difference = np.log(taken[falls]) - shape[:, falls]
    starts = np.stack([compute_median_per_row(difference), difference[:, -1]])
    best = np.full(len(shape), np.inf)
    scale = starts - math.log(TINY_STEP)
    for _ in range(ROUNDS):
        exponent = scale[..., None] + shape
        missed = -scale_log_steps_by_asinh(exponent + math.log(TINY_STEP)) - seen
        best = np.minimum(best, (missed**2).sum(axis=-1).min(axis=0))
        raised = np.exp(np.minimum(exponent, LARGE))
        slope = raised / np.sqrt(1.0 + raised * raised)
        move = (missed * slope).sum(axis=-1) / np.maximum((slope**2).sum(axis=-1), 1e-300)
        scale += np.clip(move, -1.0, 1.0)
    return best


def compute_median_per_row(values: Array) -> Array:
    """As `np.median` has it, which imports masked arrays and takes as long as the fit."""
    ordered, count = np.sort(values, axis=1), values.shape[1]
    found: Array = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2.0
    return found
