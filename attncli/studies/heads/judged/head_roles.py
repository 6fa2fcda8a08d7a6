"""Heads gathered from the rows of a report, and the role of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from attncli.records import NOT_APPLICABLE, Row, Scalar
from attncli.studies.heads.judged.roles import MIXED, PLACE, ROLE, Played, role_of
from attncli.studies.nulls import NULLS, UNIFORM
from attncli.watching.strips.attention_sites import DIFFERENCE


@dataclass
class PlayedHead:
    """One head, with its numbers and what they would be for nothing."""

    layer: int
    head: int
    keys: Mapping[str, Scalar]
    numbers: dict[str, float] = field(default_factory=dict)
    nulls: dict[str, dict[str, float]] = field(default_factory=lambda: {null: {} for null in NULLS})
    """By the null's key."""
    played: Played | None = None

    @property
    def even(self) -> Mapping[str, float]:
        """The numbers of uniform attention."""
        return self.nulls[UNIFORM]

    @property
    def name(self) -> str:
        """`5.1`, with the stack where there are several."""
        words = [str(self.keys[key]) for key in ("stack", "kind") if key in self.keys]
        return " ".join([*words, f"{self.layer}.{self.head}"])


def heads_of(rows: Iterable[Row]) -> list[PlayedHead]:
    """Every head that has a number, with the role that its numbers give it.

    What differential attention applies has no heads of its own: it is made of two.
    """
    found: dict[tuple[object, ...], PlayedHead] = {}
    for row in rows:
        if row.head is None or row.layer is None or row.value is None:
            continue
        if "offset" in row.keys or row.keys.get("kind") == DIFFERENCE:
            continue
        keys = {key: row.keys[key] for key in PLACE if key in row.keys}
        place = (row.layer, row.head, *keys.items())
        head = found.setdefault(place, PlayedHead(row.layer, row.head, keys))
        head.numbers[row.metric] = row.value
        for null, numbers in head.nulls.items():
            value = row.keys.get(null)
            if isinstance(value, float):
                numbers[row.metric] = value
    for head in found.values():
        head.played = role_of(head.numbers, head.even)
    return list(found.values())


def role_rows(heads: Iterable[PlayedHead]) -> Iterator[Row]:
    """One row for each head; a mixed one has no number, and says which role it comes nearest to."""
    for head in heads:
        if head.played is None:
            continue
        role, evidence, value = head.played.role, head.played.evidence, head.played.value
        keys: dict[str, Scalar] = {**head.keys, ROLE: role.name, "mark": role.mark}
        mixed = role is MIXED
        note = f"{NOT_APPLICABLE}no role is clear; nearest: {evidence} {value:.2f}"
        yield Row(
            ROLE,
            None if mixed else value,
            "1",
            layer=head.layer,
            head=head.head,
            note=note if mixed else f"told from {evidence}",
            keys=keys,
        )
