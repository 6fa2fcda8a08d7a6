"""Findings about a model's attention and states: most serious first, each with its number and its
control."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isclose
from typing import NamedTuple

from attncli.analysis.heads.classification.head_roles import ClassifiedHead
from attncli.analysis.heads.classification.role_rules import (
    DUPLICATE,
    INDUCTION,
    OWN,
    PREVIOUS,
    SINK,
    Role,
    classify_role,
)
from attncli.analysis.heads.classification.role_rules import UNIFORM as EVEN
from attncli.capture.other_mixers.token_mixers import format_layer_numbers
from attncli.errors import format_count
from attncli.maths.number_format import format_number, format_with_standard_deviation
from attncli.metrics.activations._activation_state import MASSIVE, RATIO
from attncli.records import NULLS, UNIFORM, Finding, Row
from attncli.tolerances import SAME_TOKEN

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
"""Metrics of states that make findings, and the sentence for their absence."""
NAMED, FIRST = 8, 3
"""Up to how many heads a sentence names all; of more, how many."""
SHORT = 64
"""Tokens below which heads look like sinks that are none on longer texts: of MiniLM's 72 heads 64
at 8 tokens, 37 at 64, 10 at 237."""


class RankedFinding(NamedTuple):
    """A sentence and how serious it is: 0 … 100."""

    weight: float
    finding: Finding


def build_findings(
    rows: Sequence[Row],
    heads: Sequence[ClassifiedHead],
    labels: Sequence[Sequence[str]],
    unseen: str = "",
    shortest: int = SHORT,
) -> tuple[Finding, ...]:
    """Build all findings. `labels`: the tokens of every text, where known; `unseen`: token mixers
    that are not measured.

    `shortest`: tokens of the shortest text.
    """
    states = [row for row in rows if row.head is None and row.value is not None]
    found = [
        *find_massive_activations(states, labels),
        *find_oversmoothed_stacks(states),
        *find_idle_heads(heads),
        *find_sinks(heads, shortest),
        *find_uniform_heads(heads),
        *find_learned_sinks(heads),
        *find_heads_with_token_roles(heads),
    ]
    ordered = sorted(found, key=lambda weighed: -weighed.weight)
    return tuple(weighed.finding for weighed in ordered) or tuple(
        build_findings_of_absent_effects(states, heads, unseen)
    )


def build_findings_of_absent_effects(
    states: Sequence[Row], heads: Sequence[ClassifiedHead], unseen: str
) -> Iterator[Finding]:
    """Report which effects were measured and are absent, and in which heads."""
    parts = list(describe_effects_absent_in_heads(heads))
    parts += [words for metric, words in IN_STATES.items() if filter_rows_by_metric(states, metric)]
    if parts and unseen:
        parts.append(f"not looked at: {unseen}")
    if parts:
        yield Finding("nothing", "; ".join(parts))


def describe_effects_absent_in_heads(heads: Sequence[ClassifiedHead]) -> Iterator[str]:
    """Metrics that the same heads have share a clause."""
    places: dict[tuple[int, ...], list[str]] = {}
    for metric, words in IN_HEADS.items():
        known = tuple(place for place, head in enumerate(heads) if metric in head.numbers)
        if known:
            places.setdefault(known, []).append(words)
    for known, kinds in places.items():
        where = format_layer_numbers([heads[place].layer for place in known])
        yield f"no {' or '.join(kinds)} in the {format_count(len(known), 'head')} of {where}"


def filter_rows_by_metric(rows: Sequence[Row], metric: str) -> list[Row]:
    return [row for row in rows if row.metric == metric]


def max_activation(row: Row) -> float:
    """Of an activation over all texts; the row's value is their mean."""
    return float(row.keys.get("largest", row.value or 0.0))


def find_massive_activations(
    states: Sequence[Row], labels: Sequence[Sequence[str]]
) -> Iterator[RankedFinding]:
    """Layers with an activation above both limits, on some text."""
    found = [
        row
        for row in filter_rows_by_metric(states, "max_activation")
        if max_activation(row) > MASSIVE and float(row.keys.get("over_median", 0.0)) > RATIO
    ]
    if not found:
        return
    top = max(found, key=max_activation)
    token, words = int(top.keys["token"]), labels[int(top.keys.get("text", 0))]
    word = f" ('{words[token]}')" if token < len(words) else ""
    yield RankedFinding(
        90.0,
        Finding(
            "massive activations",
            f"after {format_layers_of_report_rows(found)}; largest {format_number(max_activation(top))} at token {token}{word}, "
            f"feature {top.keys['feature']}, after {format_stack_and_layer(top)}: "
            f"{float(top.keys['over_median']):,.0f} × the median{format_control_values(top)}",
        ),
    )


def format_layers_of_report_rows(rows: Iterable[Row]) -> str:
    """`layers 2-4`; by stack where there are several."""
    stacks: dict[str, list[int]] = {}
    for row in rows:
        stacks.setdefault(str(row.keys.get("stack", "")), []).append(row.layer or 0)
    return ", ".join(
        f"{stack} {format_layer_numbers(own)}".strip() for stack, own in stacks.items()
    )


def format_stack_and_layer(row: Row) -> str:
    return f"{row.keys.get('stack', '')} layer {row.layer}".strip()


def format_control_values(row: Row) -> str:
    found = [(words, row.keys.get(null)) for null, words in NULLS.items()]
    return "".join(f"; {words}: {format_number(v)}" for words, v in found if isinstance(v, float))


def format_value_and_standard_deviation(row: Row) -> str:
    """A number, with its standard deviation where it is a mean."""
    value = row.value or 0.0
    return (
        format_number(value)
        if row.spread is None
        else format_with_standard_deviation(value, row.spread)
    )


def find_oversmoothed_stacks(states: Sequence[Row]) -> Iterator[RankedFinding]:
    """Find stacks whose last states all have nearly the same direction."""
    gaps = filter_rows_by_metric(states, "token_cosine_gap")
    for stack in dict.fromkeys(row.keys.get("stack") for row in gaps):
        own = [row for row in gaps if row.keys.get("stack") == stack]
        first, last = own[0], own[-1]
        if last.value is not None and last.value < COLLAPSED:
            where = f"{stack}: " if stack else ""
            start = f"after layer {first.layer}" if first.layer else "before the first"
            yield RankedFinding(
                80.0,
                Finding(
                    "over-smoothing",
                    f"{where}tokens point one way at the end: 1 - cosine {format_value_and_standard_deviation(last)} after layer {last.layer}, "
                    f"{format_value_and_standard_deviation(first)} {start}; unrelated directions: 1{format_control_values(last)}",
                ),
            )


def is_role_evident(role: Role, head: ClassifiedHead, numbers: Mapping[str, float]) -> bool:
    """Whether these numbers, the head's or a control's, would show the role, regardless of its other roles."""
    metric = role.evidence
    return metric in numbers and role.is_value_clear_evidence(
        numbers[metric], head.uniform_attention_values.get(metric)
    )


def select_heads_with_evidence(
    heads: Sequence[ClassifiedHead], role: Role
) -> tuple[list[ClassifiedHead], list[ClassifiedHead]]:
    """The heads whose own number shows the role, strongest first, and all that have the number."""
    known = [head for head in heads if role.evidence in head.numbers]
    shown = [head for head in known if is_role_evident(role, head, head.numbers)]
    return sort_heads_by_metric(shown, role.evidence), known


def sort_heads_by_metric(heads: Iterable[ClassifiedHead], metric: str) -> list[ClassifiedHead]:
    """Sort by strength; heads that differ by rounding only stay in order, so that saved maps give
    the same list."""
    return sorted(heads, key=lambda head: -round(head.numbers[metric], 6))


def truncate_head_list(heads: Sequence[ClassifiedHead]) -> Sequence[ClassifiedHead]:
    """Limit the heads to those that a sentence names."""
    return heads if len(heads) <= NAMED else heads[:FIRST]


def format_heads_with_values(
    heads: Sequence[ClassifiedHead], metric: str, as_percent: bool = False
) -> str:
    """The heads with their numbers and standard deviations, `4.5 (0.55 ± 0.03)`; of many the strongest."""
    form = format_percent if as_percent else format_decimal
    words = [
        f"{head.name} ({form(head.numbers[metric], head.rows[metric].spread)})"
        for head in truncate_head_list(heads)
    ]
    return ", ".join(words) + " …" * (len(words) < len(heads))


def format_percent(value: float, spread: float | None = None) -> str:
    if spread is not None:
        return f"{100 * value:.0f} ± {100 * spread:.0f} %"
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.2g} %"


def format_decimal(value: float, spread: float | None = None) -> str:
    return f"{value:.2f}" + (f" ± {spread:.2f}" if spread is not None else "")


def list_head_names(heads: Sequence[ClassifiedHead]) -> tuple[str, ...]:
    """Names of the heads in a sentence."""
    return tuple(head.name for head in truncate_head_list(heads))


def format_value_under_uniform_attention(
    heads: Sequence[ClassifiedHead], metric: str, form: Callable[[float], str] = format_number
) -> str:
    """`; uniform attention: 0.4 %`, from least to most where the heads see different keys."""
    values = [
        head.uniform_attention_values[metric]
        for head in heads
        if metric in head.uniform_attention_values
    ]
    if not values:
        return ""
    low, high = form(min(values)), form(max(values))
    return f"; {NULLS[UNIFORM]}: {low if low == high else f'{low} … {high}'}"


def describe_head_counts_in_controls(
    heads: Sequence[ClassifiedHead],
    metric: str,
    shown: Callable[[ClassifiedHead, Mapping[str, float]], bool],
) -> str:
    """How many heads the same sentence counts with random weights, or on shuffled text."""
    words = []
    for null in NULLS:
        known = [head for head in heads if metric in head.nulls[null]]
        if null != UNIFORM and known:
            same = sum(shown(head, head.nulls[null]) for head in known)
            words.append(f"; {NULLS[null]}: {format_count(same, 'head')}")
    return "".join(words)


def format_head_count_of_total(
    heads: Sequence[ClassifiedHead], known: Sequence[ClassifiedHead]
) -> str:
    return f"{len(heads)} of {format_count(len(known), 'head')}"


def choose_singular_or_plural_verb(heads: Sequence[ClassifiedHead], one: str, several: str) -> str:
    return one if len(heads) == 1 else several


def describe_heads_with_earlier_role(heads: Sequence[ClassifiedHead], role: Role) -> str:
    """Why the first line counts fewer: a head has the first role that its numbers show."""
    others = Counter(head.role.name for head in heads if head.role and head.role.role is not role)
    if not others:
        return ""
    (name, count), *more = others.most_common()
    words = [f"{count} of them as {name}", *(f"{count} as {name}" for name, count in more)]
    return f"; the first line counts {', '.join(words)}"


def find_sinks(heads: Sequence[ClassifiedHead], shortest: int) -> Iterator[RankedFinding]:
    """Heads that rest on one token."""
    metric = SINK.evidence
    found, known = select_heads_with_evidence(heads, SINK)
    if not found:
        return
    above = [head for head in known if head.numbers[metric] >= SINK.threshold]
    clear = ", far more than uniform attention does" if len(above) > len(found) else ""
    brief = f"; texts as short as {format_count(shortest, 'token')} make more heads look like sinks: give {SHORT} or more"
    yield RankedFinding(
        20.0 + 50.0 * len(found) / len(known),
        Finding(
            "sinks",
            f"{format_head_count_of_total(found, known)} {choose_singular_or_plural_verb(found, 'puts', 'put')} at least {format_percent(SINK.threshold)} of "
            f"{choose_singular_or_plural_verb(found, 'its', 'their')} attention on a single token{clear}{describe_sink_token(found)}"
            f": {format_heads_with_values(found, metric, as_percent=True)}"
            f"{format_value_under_uniform_attention(found, metric, format_percent)}"
            f"{describe_head_counts_in_controls(heads, metric, partial(is_role_evident, SINK))}"
            f"{describe_heads_with_earlier_role(found, SINK)}{brief if shortest < SHORT else ''}",
            metric,
            list_head_names(found),
        ),
    )


def describe_sink_token(heads: Sequence[ClassifiedHead]) -> str:
    """Whether it is token 0, if that was measured: the largest weight on one token is then that on the first."""
    known = [head for head in heads if "sink" in head.numbers]
    if len(known) < len(heads):
        return ""
    first = sum(
        isclose(
            head.numbers["sink"],
            head.numbers[SINK.evidence],
            rel_tol=SAME_TOKEN.tolerance_for_dtype(),
        )
        for head in known
    )
    if first == len(heads):
        return ", always token 0" if first > 1 else ", token 0"
    return f", {first} of them on token 0" if first else ", never token 0"


def find_uniform_heads(heads: Sequence[ClassifiedHead]) -> Iterator[RankedFinding]:
    """Heads that hardly choose."""
    metric = EVEN.evidence
    found, known = select_heads_with_evidence(heads, EVEN)
    if found:
        yield RankedFinding(
            10.0 + 50.0 * len(found) / len(known),
            Finding(
                "uniform heads",
                f"{format_head_count_of_total(found, known)} {choose_singular_or_plural_verb(found, 'is', 'are')} nearly uniform (normalised entropy ≥ {EVEN.threshold})"
                f": {format_heads_with_values(found, metric)}"
                f"{describe_head_counts_in_controls(heads, metric, partial(is_role_evident, EVEN))}"
                f"{describe_heads_with_earlier_role(found, EVEN)}",
                metric,
                list_head_names(found),
            ),
        )


def find_idle_heads(heads: Sequence[ClassifiedHead]) -> Iterator[RankedFinding]:
    """Find heads whose output is close to zero."""
    metric = "head_contribution"
    known = [
        head for head in heads if metric in head.numbers and metric in head.uniform_attention_values
    ]
    found = [
        head
        for head in known
        if head.numbers[metric] < IDLE * head.uniform_attention_values[metric]
    ]
    if found:
        found.sort(key=lambda head: head.numbers[metric])
        least = ", ".join(
            f"{head.name} ({format_value_and_standard_deviation(head.rows[metric])})"
            for head in truncate_head_list(found)
        )
        more = " …" if len(found) > NAMED else ""
        shares = sorted({format_number(head.uniform_attention_values[metric]) for head in found})
        yield RankedFinding(
            30.0 + 50.0 * len(found) / len(known),
            Finding(
                "idle heads",
                f"{format_head_count_of_total(found, known)} {choose_singular_or_plural_verb(found, 'writes', 'write')} less than a tenth of an equal share of what "
                f"{choose_singular_or_plural_verb(found, 'its layer writes', 'their layers write')}: {least}{more}; equal share: {', '.join(shares)}",
                metric,
                list_head_names(found),
            ),
        )


def find_learned_sinks(heads: Sequence[ClassifiedHead]) -> Iterator[RankedFinding]:
    """Report the weight on learned sinks."""
    metric = "virtual_sink"
    known = [head for head in heads if metric in head.numbers]
    if known:
        top = max(known, key=lambda head: head.numbers[metric])
        mean = sum(head.numbers[metric] for head in known) / len(known)
        yield RankedFinding(
            25.0,
            Finding(
                "learned sinks",
                f"take {format_percent(mean)} of the attention on average over {format_count(len(known), 'head')}, most in "
                f"{format_heads_with_values([top], metric, as_percent=True)}; without one: 0",
                metric,
                (top.name,),
            ),
        )


def find_heads_with_token_roles(heads: Sequence[ClassifiedHead]) -> Iterator[RankedFinding]:
    """Who plays the roles that are about tokens."""
    for role in (INDUCTION, PREVIOUS, DUPLICATE, OWN):
        playing = [head for head in heads if head.role and head.role.role is role]
        every, metric = sort_heads_by_metric(playing, role.evidence), role.evidence
        found = [head for head in every if head.role and head.role.is_same_in_all_samples]
        changing = [head for head in every if head not in found]
        clauses = [f"{len(found)}: {format_heads_with_values(found, metric)}"] if found else []
        clauses += [describe_heads_with_disagreeing_samples(changing, metric)] if changing else []
        if every:
            yield RankedFinding(
                10.0 - 0.1 * len(every),
                Finding(
                    f"{role.name} heads",
                    f"{'; '.join(clauses)}{format_value_under_uniform_attention(every, metric)}"
                    f"{describe_head_counts_in_controls(heads, metric, partial(does_control_head_have_role, role))}",
                    metric,
                    (*list_head_names(found), *list_head_names(changing)),
                ),
            )


def describe_heads_with_disagreeing_samples(heads: Sequence[ClassifiedHead], metric: str) -> str:
    draws = max(head.role.draws for head in heads if head.role)
    return f"{len(heads)} on some of {draws} draws only: {format_heads_with_values(heads, metric)}"


def does_control_head_have_role(
    role: Role, head: ClassifiedHead, numbers: Mapping[str, float]
) -> bool:
    played = classify_role(numbers, head.uniform_attention_values)
    return played is not None and played.role is role
