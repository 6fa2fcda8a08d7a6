"""How log10 r behaves over the layers, in words: from the explanation of the whole curve that fits it best."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import mean, stdev

from attncli.maths.curve_fits.convergence_rates import (
    STEADY,
    confidence_interval_of_mean,
    estimate_late_convergence_order,
    is_mean_significantly_nonzero,
    list_late_convergence_orders,
)
from attncli.maths.curve_fits.decay_laws_over_layers import (
    COLLAPSED,
    FEWEST_POINTS,
    LawPiece,
    fit_piecewise_law,
)
from attncli.maths.number_format import format_power_of_ten

CLIMB = 0.05
"""Decades a layer above which a curve counts as growing."""

FAR = math.log10(0.25)
"""Where a steady fall that ends above this is no law yet: a few layers of any model may do as much."""

SMALL = -3.0
"""log10 of the r up to which a slow decay is reckoned on."""

ANOTHER_RATE = 2.0
"""How much two constant factors must differ, in decades a layer, to be reported separately."""

NAMES = {2: "quadratic", 3: "cubic", 4: "quartic"}
NEAR = 0.25
"""How far from such a power an order may be."""

FEW_ORDERS = 3
"""Up to so many orders the start-up decides their mean."""
UNSETTLED = 1.5
"""The factor by which the first of them exceeds the others where it is that of the start-up: noise of a tenth in each step
seldom does as much."""

DOUBLY = "doubly exponential"
DECAY = "geometric decay"
NO_COLLAPSE = "does not collapse"

COUNTS = ("no", "", "two ", "three ")


@dataclass(frozen=True)
class CurveSegment:
    """Consecutive layers that one clause describes."""

    kind: str
    """`power`, `falls`, `flat` or `grows`."""
    curve: tuple[float, ...]
    """log10 r of its layers alone; nan where it is not known, which is never at its ends."""
    first: int
    last: int
    power: float | None = None
    """As fitted to all of it."""

    @property
    def points_with_known_value(self) -> list[tuple[int, float]]:
        """Layer and value, where the value is known: always at both ends."""
        return [(at, value) for at, value in enumerate(self.curve) if math.isfinite(value)]

    @property
    def is_too_short_for_law(self) -> bool:
        """Whether it is too short for a law."""
        return len(self.points_with_known_value) < FEWEST_POINTS

    @property
    def decades_per_layer(self) -> list[float]:
        """Decades a layer."""
        return [
            (b - a) / (at_b - at_a)
            for (at_a, a), (at_b, b) in pairwise(self.points_with_known_value)
        ]

    @property
    def mean_decades_per_layer(self) -> float:
        """Decades a layer, on the mean."""
        return (self.curve[-1] - self.curve[0]) / (self.last - self.first)

    @cached_property
    def late_decades_per_layer(self) -> list[float]:
        """The rates of the later half, after any start-up; all rates, if there are few."""
        later = self.decades_per_layer[len(self.decades_per_layer) // 2 :]
        return later if len(later) >= FEWEST_POINTS else self.decades_per_layer

    @property
    def does_fall_slow_down(self) -> bool:
        """Whether the later half falls less than half as fast as the whole."""
        return abs(mean(self.late_decades_per_layer)) < abs(mean(self.decades_per_layer)) / 2.0

    @cached_property
    def representative_decades_per_layer(self) -> list[float]:
        """The rates whose mean is the factor: the late ones, unless there are too few of them for a clear mean."""
        return (
            self.late_decades_per_layer
            if self.does_fall_slow_down
            or is_mean_significantly_nonzero(self.late_decades_per_layer)
            else self.decades_per_layer
        )

    @property
    def slope(self) -> float:
        """Decades a layer."""
        return mean(self.representative_decades_per_layer)

    @property
    def falls_by_a_decade(self) -> bool:
        """Whether r falls by a decade, to one below 1."""
        known = [value for _, value in self.points_with_known_value]
        return known[-1] <= -COLLAPSED and known[0] - known[-1] >= COLLAPSED

    @cached_property
    def trend(self) -> str:
        """`power`, `falls`, `grows`, `flat`, `levels off` or `uneven`: what the scatter of the steps leaves of its kind."""
        if self.kind == "power" or self.is_too_short_for_law:
            return self.kind
        if (
            is_mean_significantly_nonzero(self.representative_decades_per_layer)
            and self.kind != "grows"
        ):
            return (
                "falls" if self.slope < 0.0 and format_power_of_ten(self.slope) != "1" else "flat"
            )
        if (
            self.does_fall_slow_down
            and is_mean_significantly_nonzero(self.decades_per_layer)
            and mean(self.decades_per_layer) < 0.0
        ):
            return "levels off"
        return "uneven" if self.kind == "falls" or self.falls_by_a_decade else self.kind

    @property
    def convergence_order(self) -> float:
        """The order of the last layers, after the start-up; 1 except for a power."""
        return (estimate_late_convergence_order(self.curve) or self.power) if self.power else 1.0


def find_curve_segments(curve: Sequence[float]) -> list[CurveSegment]:
    """The pieces of the best explanation; constant factors of one kind that follow each other are one."""
    found: list[CurveSegment] = []
    for piece in fit_piecewise_law(tuple(curve)).pieces:
        new = make_curve_segment(curve, piece)
        if found and are_curve_segments_of_same_law(found[-1], new):
            new = join_curve_segments(curve, found.pop(), new)
        found.append(new)
    return join_curve_segments_without_law(curve, found)


def join_curve_segments_without_law(
    curve: Sequence[float], parts: Sequence[CurveSegment]
) -> list[CurveSegment]:
    """Join consecutive stretches without a law."""
    found: list[CurveSegment] = []
    for part in parts:
        if found and part.trend == found[-1].trend == "uneven":
            part = join_curve_segments(curve, found.pop(), part)
        found.append(part)
    return found


def make_curve_segment(curve: Sequence[float], piece: LawPiece) -> CurveSegment:
    """Make a stretch; growth counts only if it exceeds the scatter, as a floor also moves up and down."""
    kind = "falls" if piece.rate <= STEADY else "grows" if piece.rate >= CLIMB else "flat"
    if piece.power is not None:
        kind = "power"
    whole = tuple(curve[piece.first : piece.last + 1])
    found = CurveSegment(kind, whole, piece.first, piece.last, piece.power)
    return (
        found
        if kind != "grows"
        or found.is_too_short_for_law
        or is_mean_significantly_nonzero(found.decades_per_layer)
        else replace(found, kind="flat")
    )


def join_curve_segments(
    curve: Sequence[float], one: CurveSegment, other: CurveSegment
) -> CurveSegment:
    whole = tuple(curve[one.first : other.last + 1])
    return CurveSegment(one.kind, whole, one.first, other.last)


def are_curve_segments_of_same_law(one: CurveSegment, other: CurveSegment) -> bool:
    """Whether two laws are of one kind, and their factors not clearly different."""
    if one.kind != other.kind or one.kind == "power":
        return False
    if one.kind == "flat" or one.is_too_short_for_law or other.is_too_short_for_law:
        return True
    small, large = sorted((abs(one.mean_decades_per_layer), abs(other.mean_decades_per_layer)))
    return large < ANOTHER_RATE * small


def describe_collapse_regime(
    curve: Sequence[float],
    support: str,
    drag: str,
    unknown: str = "tokens coincide to the last bit",
) -> str:
    """Describe how log10 r behaves; nan where it is not known.

    `support` names what may hold the residual up, such as "the skip"; `drag` what keeps the rate linear; `unknown` why
    the end is not known, where it is not.
    """
    end = describe_last_layers_without_number(curve, unknown)
    if sum(map(math.isfinite, curve)) < FEWEST_POINTS:
        return end or "too few layers to tell"
    text = format_curve_segments(find_curve_segments(curve), len(curve) - 1, support, drag)
    return f"{text}; {end}" if end else text


def describe_last_layers_without_number(curve: Sequence[float], unknown: str) -> str:
    """Describe the last layers, if they have no number."""
    if math.isfinite(curve[-1]):
        return ""
    layer = 1 + max((at for at, value in enumerate(curve) if math.isfinite(value)), default=-1)
    if curve[-1] == -math.inf:
        return f"rank 1 exactly, or beyond 10^-(10^308), from layer {layer} on"
    return f"not resolved from layer {layer} on: {unknown}"


def format_curve_segments(parts: Sequence[CurveSegment], end: int, support: str, drag: str) -> str:
    """Write a clause for each stretch that is worth mentioning."""
    stretches = select_curve_segments_to_describe(parts) or list(parts)
    clauses = RegimeDescription(stretches, parts[-1].last, end, support, drag)
    if is_decay_law_interrupted(stretches):
        outer, inner, _ = stretches
        return (
            f"{clauses.describe_decay_law(outer)}, but {describe_short_curve_segment(inner, end)}"
        )
    return clauses.join_clauses_of_segments()


def is_decay_law_interrupted(stretches: Sequence[CurveSegment]) -> bool:
    """Whether a few layers interrupt a law that holds before and after them."""
    if (
        len(stretches) != 3
        or not stretches[1].is_too_short_for_law
        or stretches[0].is_too_short_for_law
        or stretches[2].is_too_short_for_law
    ):
        return False
    return stretches[0].kind == stretches[2].kind != "power" and are_curve_segments_of_same_law(
        stretches[0], stretches[2]
    )


def select_curve_segments_to_describe(parts: Sequence[CurveSegment]) -> list[CurveSegment]:
    """Select the stretches worth mentioning: no few layers without change, no start of a fall, no layer that ends at
    a floor."""
    return [
        part
        for before, part in pairwise((None, *parts))
        if part
        and not (
            part.is_too_short_for_law
            and (part.kind == "flat" or is_transition_between_decay_laws(before, part, parts))
        )
    ]


def is_transition_between_decay_laws(
    before: CurveSegment | None, part: CurveSegment, parts: Sequence[CurveSegment]
) -> bool:
    """Whether the stretch leads into the first law after it, or out of a power law."""
    if part.kind != "falls":
        return False
    later = next(
        (one.kind for one in parts if one.first >= part.last and not one.is_too_short_for_law), None
    )
    return later in ("falls", "power") or (before is not None and before.kind == "power")


def describe_short_curve_segment(part: CurveSegment, end: int) -> str:
    """`r falls in the last two layers`: describe a stretch that is too short for a law."""
    verb = {"falls": "r falls", "grows": "r rises", "flat": "r is level"}[part.kind]
    return f"{verb} {format_layer_range(part, end)}" + (
        f", to {format_power_of_ten(part.curve[-1])}" if part.falls_by_a_decade else ""
    )


def format_layer_range(part: CurveSegment, end: int) -> str:
    number = part.last - part.first
    layers = f"{COUNTS[number] if number < len(COUNTS) else f'{number} '}layer{'s' * (number > 1)}"
    if part.last == end:
        return f"in the last {layers}"
    if part.first == 0:
        return f"in the first {layers}"
    return f"in layer {part.last}" if number == 1 else f"in layers {part.first + 1} to {part.last}"


@dataclass(frozen=True)
class RegimeDescription:
    """Describes the stretches of one curve."""

    segments: Sequence[CurveSegment]
    known_to: int
    """The last layer with a number."""
    end: int
    support: str
    """Names what may hold the residual up, such as "the skip"."""
    drag: str
    """What keeps the rate constant."""

    def join_clauses_of_segments(self) -> str:
        """Join the clauses in the order of the layers; that a curve does not collapse comes before its first layers."""
        texts = [
            self.describe_curve_segment(before, part)
            for before, part in zip((None, *self.segments), self.segments, strict=False)
        ]
        first = next(
            (at for at, part in enumerate(self.segments) if not part.is_too_short_for_law), 0
        )
        if first and texts[first].startswith(NO_COLLAPSE):
            early = " and ".join(texts[:first]).replace(" and r ", " and ")
            texts = [f"{texts[first]}, though {early}", *texts[first + 1 :]]
        return ", then ".join(texts)

    def describe_curve_segment(self, before: CurveSegment | None, part: CurveSegment) -> str:
        if part.is_too_short_for_law:
            return describe_short_curve_segment(part, self.end)
        again = before and not before.is_too_short_for_law and before.trend == part.trend == "falls"
        text = format_factor_per_layer(part) if again else self.describe_decay_law(part)
        after = next((one for one in self.segments if one.first >= part.last), None)
        ends_early = part.last < self.known_to and not (after and after.is_too_short_for_law)
        return f"{text} up to layer {part.last}" if ends_early else text

    def describe_decay_law(self, part: CurveSegment) -> str:
        say: Mapping[str, Callable[[CurveSegment], str]] = {
            "power": lambda part: f"{describe_convergence_order(part)}: {DOUBLY}",
            "falls": self.describe_fall_by_constant_factor,
            "grows": lambda part: f"grows: {format_factor_per_layer(part)}",
            "uneven": lambda part: (
                f"r falls unevenly from {format_power_of_ten(part.curve[0])} to {format_power_of_ten(part.curve[-1])}"
            ),
            "levels off": lambda part: self.prefix_no_collapse_clause(
                part, f"r levels off near {format_power_of_ten(part.curve[-1])}"
            ),
            "flat": self.describe_flat_segment,
        }
        return say[part.trend](part)

    def describe_fall_by_constant_factor(self, part: CurveSegment) -> str:
        """Describe a fall by a constant factor, and the total where r has not fallen far yet."""
        if part.falls_by_a_decade or part.curve[-1] <= SMALL:
            return f"{DECAY}: {format_factor_per_layer(part)}" + (
                f" ({self.drag})" if self.drag else ""
            )
        low, high = confidence_interval_of_mean(part.representative_decades_per_layer)
        slow = part.slope > STEADY
        known = f"{format_factor_per_layer(part)} ({format_power_of_ten(low)} to {format_power_of_ten(high)})"
        if part.curve[-1] > FAR:
            return f"r falls{' slowly' * slow} from {format_power_of_ten(part.curve[0])} to {format_power_of_ten(part.curve[-1])}, {known}"
        text = f"{'slow ' * slow}{DECAY}: {known}"
        if part.last < self.known_to:
            return text
        layer = part.last + math.ceil((SMALL - part.curve[-1]) / part.slope)
        return f"{text}, would reach r = 1e{SMALL:.0f} at layer {layer:,}"

    def describe_flat_segment(self, part: CurveSegment) -> str:
        if any(
            one.last <= part.first and does_curve_segment_collapse(one) for one in self.segments
        ):
            return f"r levels off near {format_power_of_ten(part.curve[-1])}"
        if part.curve[-1] <= -COLLAPSED:
            return f"r stays near {format_power_of_ten(part.curve[-1])}"
        uneven = " (unevenly)" if stdev(part.decades_per_layer) >= -STEADY else ""
        if not self.support:
            return f"nearly flat{uneven}"
        return self.prefix_no_collapse_clause(
            part, f"tokens stay apart with {self.support}{uneven}"
        )

    def prefix_no_collapse_clause(self, part: CurveSegment, text: str) -> str:
        return (
            text
            if any(map(does_curve_segment_collapse, self.segments)) or part.curve[-1] <= -COLLAPSED
            else f"{NO_COLLAPSE}: {text}"
        )


def does_curve_segment_collapse(part: CurveSegment) -> bool:
    """Whether the stretch is long enough for a law and falls by one, or falls by a decade."""
    return not part.is_too_short_for_law and (
        part.trend in ("power", "falls") or part.falls_by_a_decade
    )


def format_factor_per_layer(part: CurveSegment) -> str:
    return f"×{format_power_of_ten(part.slope)} a layer"


def describe_convergence_order(part: CurveSegment) -> str:
    """The name of the order, or from which to which a few orders fall from that of the start-up, which makes their mean."""
    late = list_late_convergence_orders(part.curve)
    if 1 < len(late) <= FEW_ORDERS and late[-1] > UNSETTLED * max(late[:-1]):
        return f"order {min(late):.1f} to {max(late):.1f}"
    return name_convergence_order(part.convergence_order)


def name_convergence_order(order: float) -> str:
    """The name of an order near a whole power (quadratic, cubic), or its number."""
    near = NAMES.get(round(order), "")
    return near if near and abs(order - round(order)) <= NEAR else f"order {order:.2g}"


def find_order_of_double_exponential(curve: Sequence[float]) -> float | None:
    """The order of the doubly exponential stretch, if the curve has one."""
    if sum(map(math.isfinite, curve)) < FEWEST_POINTS:
        return None
    return next(
        (part.convergence_order for part in find_curve_segments(curve) if part.kind == "power"),
        None,
    )


def find_rate_of_single_exponential(curve: Sequence[float]) -> float | None:
    """Decades a layer, where a constant factor explains the whole curve."""
    if sum(map(math.isfinite, curve)) < FEWEST_POINTS:
        return None
    first, *others = fit_piecewise_law(tuple(curve)).pieces
    part = make_curve_segment(curve, first)
    return (
        part.mean_decades_per_layer
        if not others
        and part.power is None
        and is_mean_significantly_nonzero(part.decades_per_layer)
        else None
    )
