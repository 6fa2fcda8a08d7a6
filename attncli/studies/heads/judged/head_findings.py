"""What stands out in a model's attention and states, in words: most serious first, each with its number and its null."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from attncli.maths.digits import number
from attncli.metrics.activations._state import MASSIVE, RATIO
from attncli.records import Finding, Row
from attncli.studies.heads.judged.head_roles import PlayedHead
from attncli.studies.heads.judged.roles import DUPLICATE, INDUCTION, OWN, PREVIOUS, SINK, Role
from attncli.studies.heads.judged.roles import UNIFORM as EVEN
from attncli.studies.nulls import NULLS, UNIFORM
from attncli.watching.other_mixers.mixer_words import in_words

COLLAPSED = 0.05
"""1 - cosine below which tokens are called one and the same direction."""
IDLE = 0.1
"""A head that writes less than this part of an equal share is called idle."""
SOUGHT = {
    "sink_max": "sinks",
    "entropy_normalised": "uniform heads",
    "head_contribution": "idle heads",
    "max_activation": "massive activations",
    "token_cosine_gap": "collapsed states",
}
"""The metrics that findings are told from, and what they would show."""
NAMED = 3
"""How many heads a sentence names."""


class Weighed(NamedTuple):
    """A sentence and how serious it is: 0 … 100."""

    weight: float
    finding: Finding


def findings(
    rows: Sequence[Row],
    heads: Sequence[PlayedHead],
    labels: Sequence[Sequence[str]],
    unseen: str = "",
) -> tuple[Finding, ...]:
    """`labels`: the tokens of every text, where they are known; `unseen`: what mixes tokens and is not looked at."""
    states = [row for row in rows if row.head is None and row.value is not None]
    found = [
        *massive(states, labels),
        *smoothed(states),
        *idle(heads),
        *sinks(heads),
        *evenly(heads),
        *virtual(heads),
        *players(heads),
    ]
    ordered = sorted(found, key=lambda weighed: -weighed.weight)
    return tuple(weighed.finding for weighed in ordered) or tuple(nothing(rows, heads, unseen))


def nothing(rows: Sequence[Row], heads: Sequence[PlayedHead], unseen: str) -> Iterator[Finding]:
    """What was looked for and is not there, and where; not what was never measured."""
    measured = {row.metric: row.head is not None for row in rows if row.value is not None}
    in_heads = [words for metric, words in SOUGHT.items() if measured.get(metric) is True]
    in_states = [words for metric, words in SOUGHT.items() if measured.get(metric) is False]
    said = []
    if in_heads:
        where = in_words([head.layer for head in heads])
        said.append(f"no {', '.join(in_heads)} in the {count_of(len(heads))} of {where}")
    if in_states:
        said.append(f"no {', '.join(in_states)} after any layer")
    if said and unseen:
        said.append(f"not looked at: {unseen}")
    if said:
        yield Finding("nothing", "; ".join(said))


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
    layers = [row.layer or 0 for row in found]
    yield Weighed(
        90.0,
        Finding(
            "massive activations",
            f"after layers {min(layers)} to {max(layers)}; largest {number(largest(top))} at token {token}{word}, "
            f"feature {top.keys['feature']}, after layer {top.layer}: "
            f"{float(top.keys['over_median']):,.0f} × the median{nulls_beside(top)}",
        ),
    )


def nulls_beside(row: Row) -> str:
    found = [(words, row.keys.get(null)) for null, words in NULLS.items()]
    return "".join(f"; {words}: {number(v)}" for words, v in found if isinstance(v, float))


def smoothed(states: Sequence[Row]) -> Iterator[Weighed]:
    """Stacks whose last state points one way."""
    gaps = of_metric(states, "token_cosine_gap")
    for stack in dict.fromkeys(row.keys.get("stack") for row in gaps):
        own = [row for row in gaps if row.keys.get("stack") == stack]
        first, last = own[0], own[-1]
        if last.value is not None and last.value < COLLAPSED:
            where = f"{stack}: " if stack else ""
            yield Weighed(
                80.0,
                Finding(
                    "over-smoothing",
                    f"{where}tokens point one way at the end: 1 - cosine {number(last.value)} after layer {last.layer}, "
                    f"{number(first.value or 0.0)} before the first; unrelated directions: 1{nulls_beside(last)}",
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
) -> tuple[list[PlayedHead], int]:
    """The heads above, strongest first, and how many have the number at all."""
    known = [head for head in heads if metric in head.numbers]
    # What rounding alone tells apart stays in the order of the heads, as it is in the maps that a run has saved.
    found = sorted(filter(above, known), key=lambda head: -round(head.numbers[metric], 6))
    return found, len(known)


def named(found: Sequence[PlayedHead], metric: str) -> str:
    """The strongest, with their numbers."""
    return ", ".join(f"{head.name} ({head.numbers[metric]:.2f})" for head in found[:NAMED])


def names(found: Sequence[PlayedHead]) -> tuple[str, ...]:
    """Of the heads that a sentence names."""
    return tuple(head.name for head in found[:NAMED])


def nulls_in_words(found: Sequence[PlayedHead], heads: Sequence[PlayedHead], role: Role) -> str:
    """The number of uniform attention beside the strongest head, and how many heads show the same for nothing."""
    even = found[0].even.get(role.evidence)
    words = [] if even is None else [f"; {NULLS[UNIFORM]}: {number(even)}"]
    for null in NULLS:
        known = [head for head in heads if role.evidence in head.nulls[null]]
        if null != UNIFORM and known:
            same = sum(shows(role, head, head.nulls[null]) for head in known)
            words.append(f"; {NULLS[null]}: {count_of(same)}")
    return "".join(words)


def count_of(heads: int) -> str:
    return f"{heads} head{'' if heads == 1 else 's'}"


def count(found: Sequence[PlayedHead], known: int) -> str:
    return f"{len(found)} of {count_of(known)}"


def sinks(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """Heads that rest on one token."""
    found, known = chosen(heads, "sink_max", lambda head: is_clear(SINK, head))
    if not found:
        return
    first = [head for head in found if head.numbers.get("sink", 0.0) >= SINK.threshold]
    where = f"{len(first)} of them on token 0" if len(first) < len(found) else "all on token 0"
    yield Weighed(
        20.0 + 50.0 * len(found) / known,
        Finding(
            "sinks",
            f"{count(found, known)} put {SINK.threshold} and more of their weight on one token, {where}; strongest "
            f"{named(found, 'sink_max')}{nulls_in_words(found, heads, SINK)}",
            "sink_max",
            names(found),
        ),
    )


def evenly(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """Heads that hardly choose."""
    metric = EVEN.evidence
    found, known = chosen(heads, metric, lambda head: is_clear(EVEN, head))
    if found:
        yield Weighed(
            10.0 + 50.0 * len(found) / known,
            Finding(
                "uniform heads",
                f"{count(found, known)} are nearly uniform (normalised entropy ≥ {EVEN.threshold}); "
                f"most uniform {named(found, metric)}{nulls_in_words(found, heads, EVEN)}",
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
        least = ", ".join(f"{head.name} ({number(head.numbers[metric])})" for head in found[:NAMED])
        yield Weighed(
            30.0 + 50.0 * len(found) / len(known),
            Finding(
                "idle heads",
                f"{count(found, len(known))} write less than a tenth of an equal share; least {least}; "
                f"equal share: {number(found[0].even[metric])}",
                metric,
                names(found),
            ),
        )


def virtual(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """What learned sinks take."""
    known = [head for head in heads if "virtual_sink" in head.numbers]
    if known:
        top = max(known, key=lambda head: head.numbers["virtual_sink"])
        mean = sum(head.numbers["virtual_sink"] for head in known) / len(known)
        yield Weighed(
            25.0,
            Finding(
                "learned sinks",
                f"take {mean:.0%} of the attention on average, most in {top.name} "
                f"({top.numbers['virtual_sink']:.2f}); without one: 0",
                "virtual_sink",
                (top.name,),
            ),
        )


def players(heads: Sequence[PlayedHead]) -> Iterator[Weighed]:
    """Who plays the roles that are about tokens."""
    for role in (INDUCTION, PREVIOUS, DUPLICATE, OWN):
        found = plays(heads, role)
        if found:
            yield Weighed(
                10.0 - 0.1 * len(found),
                Finding(
                    f"{role.name} heads",
                    f"{len(found)}: {named(found, role.evidence)}"
                    f"{' …' if len(found) > NAMED else ''}{nulls_in_words(found, heads, role)}",
                    role.evidence,
                    names(found),
                ),
            )


def plays(heads: Sequence[PlayedHead], role: Role) -> list[PlayedHead]:
    found = [head for head in heads if head.played is not None and head.played.role is role]
    return sorted(found, key=lambda head: -head.numbers[role.evidence])
