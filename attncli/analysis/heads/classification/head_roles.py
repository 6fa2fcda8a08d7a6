"""Heads gathered from the rows of a report, and the role of each."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli.analysis.heads.classification.role_rules import (
    DOUBT,
    LOCAL,
    MIXED,
    PLACE,
    ROLE,
    AssignedRole,
    classify_role_from_samples,
)
from attncli.capture.softmax_attention.attention_site_names import DIFFERENCE
from attncli.records import NOT_APPLICABLE, NULLS, UNIFORM, JsonObject, Row, Scalar


@dataclass
class ClassifiedHead:
    """One head, with its numbers and those of uniform attention."""

    layer: int
    head: int
    keys: Mapping[str, Scalar]
    numbers: dict[str, float] = field(default_factory=dict)
    nulls: dict[str, dict[str, float]] = field(default_factory=lambda: {null: {} for null in NULLS})
    """By the null's key."""
    rows: dict[str, Row] = field(default_factory=dict)
    """Where the numbers are from, with their standard deviations over texts or draws."""
    role: AssignedRole | None = None

    @property
    def uniform_attention_values(self) -> Mapping[str, float]:
        """The numbers of uniform attention."""
        return self.nulls[UNIFORM]

    @property
    def name(self) -> str:
        """`5.1`, with the stack where there are several."""
        words = [str(self.keys[key]) for key in ("stack", "kind") if key in self.keys]
        return " ".join([*words, f"{self.layer}.{self.head}"])


def classify_heads(rows: Iterable[Row], drawn: Collection[str] = ()) -> list[ClassifiedHead]:
    """Classify every head that has a number.

    The combined map of differential attention has no heads of its own: it is a difference of two.
    `drawn`: metrics whose rows have a number for every draw of random tokens.
    """
    found: dict[tuple[object, ...], ClassifiedHead] = {}
    for row in rows:
        if row.head is None or row.layer is None or row.value is None:
            continue
        if "offset" in row.keys or row.keys.get("kind") == DIFFERENCE:
            continue
        keys = {key: row.keys[key] for key in PLACE if key in row.keys}
        place = (row.layer, row.head, *keys.items())
        head = found.setdefault(place, ClassifiedHead(row.layer, row.head, keys))
        head.numbers[row.metric], head.rows[row.metric] = row.value, row
        for null, numbers in head.nulls.items():
            value = row.keys.get(null)
            if isinstance(value, float):
                numbers[row.metric] = value
    for head in found.values():
        head.role = classify_role_from_samples(
            head.numbers, head.uniform_attention_values, collect_values_by_sample(head, drawn)
        )
    return list(found.values())


def collect_values_by_sample(
    head: ClassifiedHead, drawn: Collection[str]
) -> list[dict[str, float]]:
    """The head's numbers on each draw; metrics that are not drawn are the same on all."""
    each = {name: head.rows[name].each for name in drawn if name in head.rows}
    count = min(map(len, each.values()), default=0)
    return [
        {**head.numbers, **{name: numbers[draw] for name, numbers in each.items()}}
        for draw in range(count)
    ]


def build_role_rows(heads: Iterable[ClassifiedHead]) -> Iterator[Row]:
    """One row for each head; a mixed one has no number and a note with its nearest role."""
    for head in heads:
        if head.role is None:
            continue
        played, mixed = head.role, head.role.role is MIXED
        keys: dict[str, Scalar] = {**head.keys, ROLE: played.name, "mark": played.mark_with_doubt}
        nearest = f"{NOT_APPLICABLE}no role is clear; nearest: {played.evidence} {played.value:.2f}"
        agreement = f", in {played.passing_texts} of {played.draws} draws of random tokens"
        row = Row(
            ROLE,
            None if mixed else played.value,
            "1",
            layer=head.layer,
            head=head.head,
            note=nearest
            if mixed
            else f"from {played.evidence}{'' if played.is_same_in_all_samples else agreement}",
            keys=keys,
        )
        yield row if mixed else replace(row, **role_sampling_row_keys(head, played))


def role_sampling_row_keys(head: ClassifiedHead, played: AssignedRole) -> JsonObject:
    """The standard deviation of a role's score, and how many texts or draws it is over."""
    if played.role is LOCAL:
        source, even = head.rows["distance"], head.uniform_attention_values["distance"]
        spread = None if source.spread is None else source.spread / even
        return {"spread": spread, "n": source.n, "each": tuple(1.0 - d / even for d in source.each)}
    source = head.rows[played.evidence]
    return {"spread": source.spread, "n": source.n, "each": source.each}


def describe_roles(heads: Sequence[ClassifiedHead], total: int) -> str:
    """What follows `72 heads`: `: 57 mixed, 10 sink`, `: all uniform`; empty where roles were not looked for."""
    names = {head.role.name for head in heads if head.role is not None}
    if names == {MIXED.name} and len(heads) == total:
        return ": none has a clear role" if total > 1 else ": no clear role"
    if len(names) == 1 and len(heads) == total:
        return f": {'all ' * (total > 1)}{names.pop()}"
    return f": {format_role_counts(heads, total)}" if names else ""


def format_role_counts(heads: Sequence[ClassifiedHead], total: int) -> str:
    """`57 mixed, 10 sink, 2 without a role`; `total`: of all heads, whether they have numbers or not."""
    counts = Counter(head.role.name for head in heads if head.role is not None)
    ordered = sorted(counts, key=lambda name: (-counts[name], name.endswith(DOUBT)))
    words = [f"{counts[name]} {name}" for name in ordered]
    without = total - counts.total()
    return ", ".join([*words, *([f"{without} without a role"] if words and without else [])])
