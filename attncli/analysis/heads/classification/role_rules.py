"""Classify a head by its numbers: the first role whose evidence is strong enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attncli.records import Definition

ROLE = "role"
DEFINITION = Definition("1", "Role of each head; the shade is the score behind that role.")

DOUBT = "?"
"""Behind a role, and behind its letter: it changes with the draw of random tokens."""

PLACE = ("stack", "kind", "span")
"""Keys that distinguish attention layers of the same number."""


@dataclass(frozen=True, slots=True)
class Role:
    """One thing that heads are known to do."""

    name: str
    mark: str
    """Its letter in the grid."""
    evidence: str
    """The metric that shows it."""
    threshold: float
    """From which value on."""
    beats_even: bool = True
    """Whether the head must be well above uniform attention, which on short texts scores high
    everywhere."""

    def is_value_clear_evidence(self, value: float, even: float | None) -> bool:
        """Whether the value reaches the threshold, and twice uniform attention or half of the rest."""
        if even is None or not self.beats_even:
            return value >= self.threshold
        return value > even and value >= max(self.threshold, min(2.0 * even, (1.0 + even) / 2.0))


PREVIOUS = Role("previous-token", "P", "previous_token", 0.5)
INDUCTION = Role("induction", "I", "induction", 0.4)
DUPLICATE = Role("duplicate", "D", "duplicate_token", 0.3)
OWN = Role("self", "E", "self_attention", 0.5)
SINK = Role("sink", "S", "sink_max", 0.3)
UNIFORM = Role("uniform", "U", "entropy_normalised", 0.95, beats_even=False)
LOCAL = Role("local", "L", "nearness", 0.75)
POSITIONAL = Role("positional", "=", "offset_share", 0.6)
MIXED = Role("mixed", "·", "", 0.0)

ROLES = (PREVIOUS, INDUCTION, DUPLICATE, OWN, SINK, UNIFORM, LOCAL, POSITIONAL)
"""Roles in the order in which they are tested: what a head does with a token says more than how
uniform it is.

An induction head sinks on text without repeats, and a uniform head looks by position alone.
"""

MEASURED = (
    "previous_token",
    "induction",
    "duplicate_token",
    "self_attention",
    "sink_max",
    "entropy_normalised",
    "distance",
    "offset_share",
)
"""Metrics of attention that the roles need."""


@dataclass(frozen=True, slots=True)
class AssignedRole:
    """The role of one head."""

    role: Role
    evidence: str
    value: float
    """Of the evidence; of a mixed head, of the role that it comes nearest to."""
    draws: int = 0
    """On how many draws of random tokens the role was looked for, and on how many it is clear."""
    passing_texts: int = 0

    @property
    def is_same_in_all_samples(self) -> bool:
        """Whether all draws agree."""
        return self.passing_texts == self.draws

    @property
    def name(self) -> str:
        """`induction?` where the role changes with the draw."""
        return self.role.name + DOUBT * (not self.is_same_in_all_samples)

    @property
    def mark_with_doubt(self) -> str:
        return self.role.mark + DOUBT * (not self.is_same_in_all_samples)


def classify_role_from_samples(
    numbers: Mapping[str, float], even: Mapping[str, float], draws: Sequence[Mapping[str, float]]
) -> AssignedRole | None:
    """The role by the means over all draws; where single draws differ, the first role that any of them shows."""
    whole = classify_role(numbers, even)
    each = [played.role for draw in draws if (played := classify_role(draw, even)) is not None]
    seen = [role for role in ROLES if role in each]
    if whole is None or all(role is whole.role for role in each):
        return whole
    role = seen[0] if seen else whole.role
    value = {**numbers, **compute_nearness_to_roles(numbers, even)}[role.evidence]
    return AssignedRole(role, role.evidence, value, len(each), each.count(role))


def classify_role(numbers: Mapping[str, float], even: Mapping[str, float]) -> AssignedRole | None:
    """Assign a role from a head's numbers and those of uniform attention; None where no number is
    known."""
    known = {**numbers, **compute_nearness_to_roles(numbers, even)}
    measurable = [role for role in ROLES if role.evidence in known]
    if not measurable:
        return None
    for role in measurable:
        if role.is_value_clear_evidence(known[role.evidence], even.get(role.evidence)):
            return AssignedRole(role, role.evidence, known[role.evidence])
    nearest = max(measurable, key=lambda role: known[role.evidence] / role.threshold)
    return AssignedRole(MIXED, nearest.evidence, known[nearest.evidence])


def compute_nearness_to_roles(
    numbers: Mapping[str, float], even: Mapping[str, float]
) -> dict[str, float]:
    """1 - distance / distance of uniform attention."""
    if "distance" not in numbers or not even.get("distance"):
        return {}
    return {"nearness": 1.0 - numbers["distance"] / even["distance"]}
