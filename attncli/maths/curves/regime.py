"""How log10 r behaves over the layers, in words: from the explanation of the whole curve that fits it best."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean, stdev

from attncli.maths.curves.convergence import STEADY, late_order, late_slope
from attncli.maths.curves.decays import FEWEST_POINTS, Piece, explained
from attncli.maths.digits import ten_to

CLIMB = 0.05
"""Decades a layer above which a curve is said to grow."""

ANOTHER_RATE = 2.0
"""How far apart two constant factors must be, in decades a layer, to be told one by one."""

NAMES = {2: "quadratic", 3: "cubic", 4: "quartic"}
NEAR = 0.25
"""How far from such a power an order may be."""

DOUBLY = "doubly exponential"

COUNTS = ("no", "", "two ", "three ")


@dataclass(frozen=True)
class Stretch:
    """Layers that one clause speaks of."""

    kind: str
    """`power`, `falls`, `flat` or `grows`."""
    curve: tuple[float, ...]
    """Of its layers alone; nan where it is not known."""
    first: int
    last: int
    power: float | None = None
    """As fitted to all of it."""

    @property
    def points(self) -> list[tuple[int, float]]:
        """Layer and value, where known: at both ends, but not everywhere between."""
        return [(at, value) for at, value in enumerate(self.curve) if math.isfinite(value)]

    @property
    def short(self) -> bool:
        """Whether it is too short for a law."""
        return len(self.points) < FEWEST_POINTS

    @property
    def rates(self) -> list[float]:
        """Decades a layer."""
        return [(b - a) / (at_b - at_a) for (at_a, a), (at_b, b) in pairwise(self.points)]

    @property
    def rate(self) -> float:
        """Decades a layer, on the mean."""
        return (self.curve[-1] - self.curve[0]) / (self.last - self.first)

    @property
    def slope(self) -> float:
        """Decades a layer, late in it; on the mean where its later half is of another kind."""
        late = late_slope(self.points)
        return late if kind_of(late) == self.kind else self.rate

    @property
    def order(self) -> float:
        """That of the last layers, which start-up no longer bends; 1 but for a power."""
        return (late_order(self.curve) or self.power) if self.power else 1.0


def kind_of(rate: float) -> str:
    if rate <= STEADY:
        return "falls"
    return "grows" if rate >= CLIMB else "flat"


def stretches(curve: Sequence[float]) -> list[Stretch]:
    """The pieces of the best explanation; constant factors of one kind that follow each other are one."""
    found: list[Stretch] = []
    for piece in explained(tuple(curve)).pieces:
        new = stretch(curve, piece)
        if found and alike(found[-1], new):
            new = joined(curve, found.pop(), new)
        found.append(new)
    return found


def stretch(curve: Sequence[float], piece: Piece) -> Stretch:
    """Growth is only called so where it is clear of the scatter: a floor goes up and down."""
    kind = "power" if piece.power is not None else kind_of(piece.rate)
    whole = part_of(curve, piece.first, piece.last)
    found = Stretch(kind, whole, piece.first, piece.last, piece.power)
    return found if kind != "grows" or found.short or clear(found) else replace(found, kind="flat")


def part_of(curve: Sequence[float], first: int, last: int) -> tuple[float, ...]:
    return tuple(curve[first : last + 1])


def joined(curve: Sequence[float], one: Stretch, other: Stretch) -> Stretch:
    return Stretch(one.kind, part_of(curve, one.first, other.last), one.first, other.last)


def alike(one: Stretch, other: Stretch) -> bool:
    """Of one kind, and not two laws of clearly different factors."""
    if one.kind != other.kind or one.kind == "power":
        return False
    if one.kind == "flat" or one.short or other.short:
        return True
    small, large = sorted((abs(one.rate), abs(other.rate)))
    return large < ANOTHER_RATE * small


def regime(
    curve: Sequence[float],
    support: str,
    drag: str,
    unknown: str = "tokens coincide to the last bit",
) -> str:
    """How log10 r behaves, in words; nan where it is not known.

    `support` names what may hold the residual up, such as "the skip"; `drag` what keeps the rate linear; `unknown` why
    the end is not known, where it is not.
    """
    end = ending(curve, unknown)
    if sum(map(math.isfinite, curve)) < FEWEST_POINTS:
        return end or "too few layers to tell"
    text = in_words(stretches(curve), len(curve) - 1, support, drag)
    return f"{text}; {end}" if end else text


def ending(curve: Sequence[float], unknown: str) -> str:
    """What is to be said of the last layers, where they have no number."""
    if math.isfinite(curve[-1]):
        return ""
    layer = 1 + max((at for at, value in enumerate(curve) if math.isfinite(value)), default=-1)
    if curve[-1] == -math.inf:
        return f"rank 1 exactly, or beyond 10^-(10^308), from layer {layer} on"
    return f"not resolved from layer {layer} on: {unknown}"


def in_words(parts: Sequence[Stretch], end: int, support: str, drag: str) -> str:
    """A clause for each stretch that is worth one."""
    told, known_to = worth_telling(parts) or list(parts), parts[-1].last
    if interrupted(told):
        outer, inner, _ = told
        return f"{clause(outer, support, drag, told)}, but {single_layers(inner, end)}"
    return ", then ".join(clauses(told, known_to, end, support, drag))


def interrupted(told: Sequence[Stretch]) -> bool:
    """Whether some layers differ from all others."""
    if len(told) != 3 or not told[1].short or told[0].short or told[2].short:
        return False
    return told[0].kind == told[2].kind != "power" and alike(told[0], told[2])


def worth_telling(parts: Sequence[Stretch]) -> list[Stretch]:
    """Not a few layers of nothing, nor those on which a fall begins, or the layer that ends at a floor."""
    return [
        part
        for before, part in pairwise((None, *parts))
        if part and not (part.short and (part.kind == "flat" or leads(before, part, parts)))
    ]


def leads(before: Stretch | None, part: Stretch, parts: Sequence[Stretch]) -> bool:
    """Whether it falls on the way into the first law after it, or out of a power."""
    if part.kind != "falls":
        return False
    later = next((one.kind for one in parts if one.first >= part.last and not one.short), None)
    return later in ("falls", "power") or (before is not None and before.kind == "power")


def clauses(
    told: Sequence[Stretch], known_to: int, end: int, support: str, drag: str
) -> Iterator[str]:
    for before, part, after in zip((None, *told), told, (*told[1:], None), strict=False):
        if part.short:
            yield single_layers(part, end)
            continue
        again = before is not None and before.kind == part.kind
        text = factor(part) if again else clause(part, support, drag, told)
        ends_early = part.last < known_to and not (after and after.short)
        yield f"{text} up to layer {part.last}" if ends_early else text


def single_layers(part: Stretch, end: int) -> str:
    """`r falls in the last two layers`: what is too short to be a law."""
    verb = {"falls": "r falls", "grows": "r rises", "flat": "r is level"}[part.kind]
    number = part.last - part.first
    layers = f"{COUNTS[number] if number < len(COUNTS) else f'{number} '}layer{'s' * (number > 1)}"
    if part.last == end:
        return f"{verb} in the last {layers}"
    if part.first == 0:
        return f"{verb} in the first {layers}"
    if number == 1:
        return f"{verb} in layer {part.last}"
    return f"{verb} in layers {part.first + 1} to {part.last}"


def clause(part: Stretch, support: str, drag: str, told: Sequence[Stretch]) -> str:
    """A law in words; `told`: all of them."""
    if part.kind == "power":
        return f"{name_of(part.order)}: {DOUBLY}"
    if part.kind == "falls":
        return f"linear: {factor(part)}" + (f" ({drag})" if drag else "")
    if part.kind == "grows":
        return f"grows: {factor(part)}"
    if not support:
        return f"nearly flat{rate_beside(part)}"
    keep = "keep" if " and " in support else "keeps"
    apart = f"{support} {keep} tokens apart{rate_beside(part)}"
    collapses = any(other.kind in ("power", "falls") and not other.short for other in told)
    return apart if collapses else f"does not collapse: {apart}"


def rate_beside(part: Stretch) -> str:
    """` (×0.83 a layer)`; nothing of a factor that is hardly another number than 1."""
    if ten_to(part.slope) == "1":
        return "" if steady(part) else " (unevenly)"
    return f" ({factor(part)})"


def factor(part: Stretch) -> str:
    return f"×{ten_to(part.slope)} a layer{'' if steady(part) else ', unevenly'}"


def name_of(order: float) -> str:
    """The name of a power that is near, or its number."""
    near = NAMES.get(round(order), "")
    return near if near and abs(order - round(order)) <= NEAR else f"order {order:.2g}"


def steady(part: Stretch) -> bool:
    """Whether its factor says what the layers do: a flat one's hardly move, another's clearly go its way."""
    return stdev(part.rates) < -STEADY if part.kind == "flat" else clear(part)


def clear(part: Stretch) -> bool:
    """Whether the mean of the steps is two of its standard errors from nothing."""
    return abs(mean(part.rates)) > 2.0 * stdev(part.rates) / math.sqrt(len(part.rates))


def told_order(curve: Sequence[float]) -> float | None:
    """The order of the doubly exponential stretch, if the curve has one."""
    if sum(map(math.isfinite, curve)) < FEWEST_POINTS:
        return None
    return next((part.order for part in stretches(curve) if part.kind == "power"), None)


def one_rate(curve: Sequence[float]) -> float | None:
    """Decades a layer, where a constant factor explains the whole curve."""
    if sum(map(math.isfinite, curve)) < FEWEST_POINTS:
        return None
    first, *others = explained(tuple(curve)).pieces
    part = stretch(curve, first)
    return part.rate if not others and part.power is None and clear(part) else None
