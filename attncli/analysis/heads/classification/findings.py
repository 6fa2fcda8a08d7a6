"""What stands out in a model's attention and states: most serious first, each with its number and its baseline."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isclose
from typing import NamedTuple

from attncli.analysis.controls import NULLS, UNIFORM
from attncli.analysis.heads.classification.head_roles import PlayedHead
from attncli.analysis.heads.classification.roles import (
    DUPLICATE,
    INDUCTION,
    OWN,
    PREVIOUS,
    SINK,
    Role,
    role_of,
)
from attncli.analysis.heads.classification.roles import UNIFORM as EVEN
from attncli.capture.other_mixers.mixer_descriptions import in_words
from attncli.errors import counted
from attncli.maths.digits import number, with_spread
from attncli.metrics.activations._state import MASSIVE, RATIO
from attncli.records import Finding, Row

COLLAPSED = 0.05
"""1 - cosine below which tokens are called one and the same direction."""
IDLE = 0.1
"""A head that writes less than this part of an equal share is called idle."""
IN_HEADS = {
    "sink_max": "sinks",
    "entropy_normalised": "uniform heads",
    "head_contribution": "idle heads",
}
IN_STATES = {
    "max_activation": "no massive activations after any layer",
    "token_cosine_gap": "no collapsed state at the end",
}
"""The metrics that findings are made from, and what they did not show."""
NAMED, FIRST = 8, 3
"""Up to how many heads a sentence names all; of more, how many."""
SHORT = 64
"""Tokens below which heads look like sinks that are none on longer texts: of MiniLM's 72 heads 64 at 8 tokens, 37 at 64, 10 at 237."""


class Weighed(NamedTuple):
    """A sentence and how serious it is: 0 … 100."""

    weight: float
    finding: Finding


def findings(
    rows: Sequence[Row],
    heads: Sequence[PlayedHead],
    labels: Sequence[Sequence[str]],
    unseen: str = "",
    shortest: int = SHORT,
) -> tuple[Finding, ...]:
    """`labels`: the tokens of every text, where they are known; `unseen`: what mixes tokens and is not looked at.

    `shortest`: tokens of the shortest text.
    """
    states = [row for row in rows if row.head is None and row.value is not None]
    found = [
        *massive(states, labels),
        *smoothed(states),
        *idle(heads),
        *sinks(heads, shortest),
        *uniform(heads),
        *virtual(heads),
        *players(heads),
    ]
    ordered = sorted(found, key=lambda weighed: -weighed.weight)
    return tuple(weighed.finding for weighed in ordered) or tuple(nothing(states, heads, unseen))


def nothing(states: Sequence[Row], heads: Sequence[PlayedHead], unseen: str) -> Iterator[Finding]:
    """What was looked for and is not there, and in which heads; not what was never measured."""
    parts = list(nothing_in_heads(heads))
    parts += [words for metric, words in IN_STATES.items() if of_metric(states, metric)]
    if parts and unseen:
        parts.append(f"not looked at: {unseen}")
    if parts:
        yield Finding("nothing", "; ".join(parts))


def nothing_in_heads(heads: Sequence[PlayedHead]) -> Iterator[str]:
    """Metrics that the same heads have share a clause."""
    places: dict[tuple[int, ...], list[str]] = {}
    for metric, words in IN_HEADS.items():
        known = tuple(place for place, head in enumerate(heads) if metric in head.numbers)
        if known:
            places.setdefault(known, []).append(words)
    for known, kinds in places.items():
        where = in_words([heads[place].layer for place in known])
        yield f"no {' or '.join(kinds)} in the {counted(len(known), 'head')} of {where}"


def of_metric(rows: Sequence[Row], metric: str) -> list[Row]:
    return [row for row in rows if row.metric == metric]


def largest(row: Row) -> float:
    """Of an activation over all texts; the row's value is their mean."""
    return float(row.keys.get("largest", row.value or 0.0))


def massive(states: Sequence[Row], labels: Sequence[Sequence[str]]) -> Iterator[Weighed]:
    """Layers with an activation above both limits, on some text."""
    found = [
        row
        for row in of_metric(states, "max_activation")
        if largest(row) > MASSIVE and float(row.keys.get("over_median", 0.0)) > RATIO
    ]
    if not found:
        return
    top = max(found, key=largest)
    token, words = int(top.keys["token"]), labels[int(top.keys.get("text", 0))]
    word = f" ('{words[token]}')" if token < len(words) else ""
    yield Weighed(
        90.0,
        Finding(
            "massive activations",
            f"after {layers_of(found)}; largest {number(largest(top))} at token {token}{word}, "
            f"feature {top.keys['feature']}, after {place_of(top)}: "
            f"{float(top.keys['over_median']):,.0f} × the median{nulls_of(top)}",
        ),
    )


def layers_of(rows: Iterable[Row]) -> str:
    """`layers 2-4`; by stack where there are several."""
    stacks: dict[str, list[int]] = {}
    for row in rows:
        stacks.setdefault(str(row.keys.get("stack", "")), []).append(row.layer or 0)
    return ", ".join(f"{stack} {in_words(own)}".strip() for stack, own in stacks.items())


def place_of(row: Row) -> str:
    return f"{row.keys.get('stack', '')} layer {row.layer}".strip()


def nulls_of(row: Row) -> str:
    found = [(words, row.keys.get(null)) for null, words in NULLS.items()]
    return "".join(f"; {words}: {number(v)}" for words, v in found if isinstance(v, float))


def measured(row: Row) -> str:
    """A number, with its standard deviation where it is a mean."""
    value = row.value or 0.0
    return number(value) if row.spread is None else with_spread(value, row.spread)


def smoothed(states: Sequence[Row]) -> Iterator[Weighed]:
    """Stacks whose last state points one way."""
    gaps = of_metric(states, "token_cosine_gap")
    for stack in dict.fromkeys(row.keys.get("stack") for row in gaps):
        own = [row for row in gaps if row.keys.get("stack") == stack]
        first, last = own[0], own[-1]
        if last.value is not None and last.value < COLLAPSED:
            where = f"{stack}: " if stack else ""
            start = f"after layer {first.layer}" if first.layer else "before the first"
            yield Weighed(
                80.0,
                Finding(
                    "over-smoothing",
                    f"{where}tokens point one way at the end: 1 - cosine {measured(last)} after layer {last.layer}, "
                    f"{measured(first)} {start}; unrelated directions: 1{nulls_of(last)}",
                ),
            )


def is_clear(role: Role, head: PlayedHead) -> bool:
    """Whether a head's own number shows the role, whatever else it does."""
    return shows(role, head, head.numbers)


def shows(role: Role, head: PlayedHead, numbers: Mapping[str, float]) -> bool:
    """Whether these numbers, the head's own or those of a null, would show the role."""
    metric = role.evidence
    return metric in numbers and role.is_clear(numbers[metric], head.even.get(metric))


def chosen(
    heads: Sequence[PlayedHead], metric: str, above: Callable[[PlayedHead], bool]
) -> tuple[list[PlayedHead], list[PlayedHead]]:
    """The heads above, strongest first, and all that have the number."""
    known = [head for head in heads if metric in head.numbers]
    return strongest_first(filter(above, known), metric), known


def strongest_first(heads: Iterable[PlayedHead], metric: str) -> list[PlayedHead]:
    """What rounding alone tells apart stays in the order of the heads, as it is in the maps that a run has saved."""
    return sorted(heads, key=lambda head: -round(head.numbers[metric], 6))


def some(found: Sequence[PlayedHead]) -> Sequence[PlayedHead]:
    """Those that a sentence names."""
    return found if len(found) <= NAMED else found[:FIRST]


def named(found: Sequence[PlayedHead], metric: str, as_percent: bool = False) -> str:
    """The heads with their numbers and standard deviations, `4.5 (0.55 ± 0.03)`; of many the strongest."""
    form = percent if as_percent else decimal
    words = [
        f"{head.name} ({form(head.numbers[metric], head.rows[metric].spread)})"
        for head in some(found)
    ]
    return ", ".join(words) + " …" * (len(words) < len(found))


def percent(value: float, spread: float | None = None) -> str:
    if spread is not None:
        return f"{100 * value:.0f} ± {100 * spread:.0f} %"
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.2g} %"


def decimal(value: float, spread: float | None = None) -> str:
    return f"{value:.2f}" + (f" ± {spread:.2f}" if spread is not None else "")


def names(found: Sequence[PlayedHead]) -> tuple[str, ...]:
    """Of the heads that a sentence names."""
    return tuple(head.name for head in some(found))


def uniform_value(
    found: Sequence[PlayedHead], metric: str, form: Callable[[float], str] = number
) -> str:
    """`; uniform attention: 0.4 %`, from least to most where the heads see different keys."""
    values = [head.even[metric] for head in found if metric in head.even]
    if not values:
        return ""
    low, high = form(min(values)), form(max(values))
    return f"; {NULLS[UNIFORM]}: {low if low == high else f'{low} … {high}'}"


def other_nulls(
    heads: Sequence[PlayedHead],
    metric: str,
    shown: Callable[[PlayedHead, Mapping[str, float]], bool],
) -> str:
    """How many heads the same sentence counts with random weights, or on shuffled text."""
    words = []
    for null in NULLS:
        known = [head for head in heads if metric in head.nulls[null]]
        if null != UNIFORM and known:
            same = sum(shown(head, head.nulls[null]) for head in known)
            words.append(f"; {NULLS[null]}: {counted(same, 'head')}")
    return "".join(words)


def share(found: Sequence[PlayedHead], known: Sequence[PlayedHead]) -> str:
    return f"{len(found)} of {counted(len(known), 'head')}"


def verb(found: Sequence[PlayedHead], one: str, several: str) -> str:
    return one if len(found) == 1 else several


def with_earlier_roles(found: Sequence[PlayedHead], role: Role) -> str:
    """Why the first line counts fewer: a head has the first role that its numbers show."""
    others = Counter(
        head.played.name for head in found if head.played and head.played.role is not role
    )
    if not others:
        return ""
    (name, count), *more = others.most_common()
    words = [f"{count} of them as {name}", *(f"{count} as {name}" for name, count in more)]
    return f"; the first line counts {', '.join(words)}"


def sinks(heads: Sequence[PlayedHead], shortest: int) -> Iterator[Weighed]:
    """Heads that rest on one token."""
    metric = SINK.evidence
    found, known = chosen(heads, metric, lambda head: is_clear(SINK, head))
    if not found:
        return
    above = [head for head in known if head.numbers[metric] >= SINK.threshold]
    clear = ", far more than uniform attention does" if len(above) > len(found) else ""
    brief = f"; short texts (here {counted(shortest, 'token')}) make more heads look like sinks: give {SHORT} or more"
    yield Weighed(
        20.0 + 50.0 * len(found) / len(known),
        Finding(
            "sinks",
            f"{share(found, known)} {verb(found, 'puts', 'put')} at least {percent(SINK.threshold)} of "
            f"{verb(found, 'its', 'their')} attention on a single token{clear}{which_token(found)}"
            f": {named(found, metric, as_percent=True)}"
            f"{uniform_value(found, metric, percent)}"
            f"{other_nulls(heads, metric, partial(shows, SINK))}"
            f"{with_earlier_roles(found, SINK)}{brief if shortest < SHORT else ''}",
            metric,
            names(found),
        ),
    )


def which_token(found: Sequence[PlayedHead]) -> str:
    """Whether it is token 0, if that was measured: the largest weight on one token is then that on the first."""
    known = [head for head in found if "sink" in head.numbers]
    if len(known) < len(found):
        return ""
    first = sum(
        isclose(head.numbers["sink"], head.numbers[SINK.evidence], rel_tol=1e-5) for head in known
    )
    if first == len(found):
        return ", always token 0" if first > 1 else ", token 0"
    return f", {first} of them on token 0" if first else ", never token 0"


def uniform(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """Heads that hardly choose."""
    metric = EVEN.evidence
    found, known = chosen(heads, metric, lambda head: is_clear(EVEN, head))
    if found:
        yield Weighed(
            10.0 + 50.0 * len(found) / len(known),
            Finding(
                "uniform heads",
                f"{share(found, known)} {verb(found, 'is', 'are')} nearly uniform (normalised entropy ≥ {EVEN.threshold})"
                f": {named(found, metric)}"
                f"{other_nulls(heads, metric, partial(shows, EVEN))}"
                f"{with_earlier_roles(found, EVEN)}",
                metric,
                names(found),
            ),
        )


def idle(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """Heads that write next to nothing."""
    metric = "head_contribution"
    known = [head for head in heads if metric in head.numbers and metric in head.even]
    found = [head for head in known if head.numbers[metric] < IDLE * head.even[metric]]
    if found:
        found.sort(key=lambda head: head.numbers[metric])
        least = ", ".join(f"{head.name} ({measured(head.rows[metric])})" for head in some(found))
        more = " …" if len(found) > NAMED else ""
        shares = sorted({number(head.even[metric]) for head in found})
        yield Weighed(
            30.0 + 50.0 * len(found) / len(known),
            Finding(
                "idle heads",
                f"{share(found, known)} {verb(found, 'writes', 'write')} less than a tenth of an equal share of what "
                f"{verb(found, 'its layer writes', 'their layers write')}: {least}{more}; equal share: {', '.join(shares)}",
                metric,
                names(found),
            ),
        )


def virtual(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """What learned sinks take."""
    metric = "virtual_sink"
    known = [head for head in heads if metric in head.numbers]
    if known:
        top = max(known, key=lambda head: head.numbers[metric])
        mean = sum(head.numbers[metric] for head in known) / len(known)
        yield Weighed(
            25.0,
            Finding(
                "learned sinks",
                f"take {percent(mean)} of the attention on average over {counted(len(known), 'head')}, most in "
                f"{named([top], metric, as_percent=True)}; without one: 0",
                metric,
                (top.name,),
            ),
        )


def players(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """Who plays the roles that are about tokens."""
    for role in (INDUCTION, PREVIOUS, DUPLICATE, OWN):
        every, metric = plays(heads, role), role.evidence
        found = [head for head in every if head.played and head.played.is_sure]
        changing = [head for head in every if head not in found]
        clauses = [f"{len(found)}: {named(found, metric)}"] if found else []
        clauses += [in_some_draws(changing, metric)] if changing else []
        if every:
            yield Weighed(
                10.0 - 0.1 * len(every),
                Finding(
                    f"{role.name} heads",
                    f"{'; '.join(clauses)}{uniform_value(every, metric)}"
                    f"{other_nulls(heads, metric, partial(would_play, role))}",
                    metric,
                    (*names(found), *names(changing)),
                ),
            )


def in_some_draws(heads: Sequence[PlayedHead], metric: str) -> str:
    draws = max(head.played.draws for head in heads if head.played)
    return f"{len(heads)} on some of {draws} draws only: {named(heads, metric)}"


def would_play(role: Role, head: PlayedHead, numbers: Mapping[str, float]) -> bool:
    played = role_of(numbers, head.even)
    return played is not None and played.role is role


def plays(heads: Sequence[PlayedHead], role: Role) -> list[PlayedHead]:
    found = [head for head in heads if head.played is not None and head.played.role is role]
    return strongest_first(found, role.evidence)
