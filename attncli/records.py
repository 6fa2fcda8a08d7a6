"""The types that travel between packages: `Row`, `Report` and their parts.

Everything is frozen and flat. One number is one row; what does not apply is `None`, never 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

SCHEMA_VERSION = 2
"""The schema version of written reports. 2: rows have `each`, texts have `sha256`."""
READ_VERSIONS = (1, 2)
"""The schema versions that can be read; fields that a version lacks are empty."""

NOT_APPLICABLE = "n/a: "
"""The prefix of a null's note where there is no such number, rather than one that could not be had."""

Scalar = str | int | float

JsonObject = dict[str, Any]
"""A JSON object that is being read or made: texts, numbers, lists and further objects by name."""
Facts = Mapping[str, Any]
"""A finished one: the settings of a file, or what a report says of its source and input."""


class RowPlace(TypedDict, total=False):
    """The coordinates that several rows share, as keywords of each."""

    variant: str | None
    layer: int | None
    head: int | None


ARITHMETIC, UNCERTAINTY = "arithmetic", "uncertainty"
"""Keys of how a number was computed, and of how far rounding may have moved it."""

LOW, HIGH = "low", "high"
"""Keys of the interval around an estimate."""

UNIFORM, RANDOM, SHUFFLED = "uniform", "random_init", "shuffled"
NULLS = {UNIFORM: "uniform attention", RANDOM: "random weights", SHUFFLED: "shuffled text"}
"""Controls of heads' numbers: their keys in a row, and their labels."""

FOUND_KEYS = frozenset(
    {
        *(ARITHMETIC, UNCERTAINTY),
        *NULLS,
        *("token", "feature", "over_median", "largest", "text"),
        *("role", "mark", "word"),
        *("query", "key", "query_token", "key_token", "other_queries"),
        *("error", LOW, HIGH, "directions"),
        "floor",
    }
)
"""Keys that say what was found at a row's place, where all others say which place it is: the same number under
uniform attention, with random weights or on shuffled text; where a maximum lies; a head's role and its letter; a token's word; the two
tokens of a pair; the error of an estimate, its interval and how many random directions it is from; the step of a type; how it was computed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One number, with everything needed to know which number it is."""

    metric: str
    value: float | None
    """The mean over the n seeds or texts, the largest or least where the metric's definition says so; `None` only together with a `note` that says why."""
    unit: str
    variant: str | None = None
    layer: int | None = None
    """The true layer index; 0 … L for states (0 = embeddings), 0 … L-1 for attention."""
    head: int | None = None
    spread: float | None = None
    """Standard deviation over the n seeds or texts (n - 1 in the denominator); `None` when n < 2."""
    n: int = 1
    note: str | None = None
    keys: Mapping[str, Scalar] = field(default_factory=dict)
    """Further axes that a study needs, such as `tokens` in a sweep."""
    each: tuple[float, ...] = ()
    """The n numbers that `value` is the mean of, in the order of the seeds or texts: what two reports of the same texts
    are paired by. Empty where n is 1, or too large to keep them."""

    def __hash__(self) -> int:
        """The same for equal rows: `keys` cannot be hashed, and are left out."""
        return hash((self.metric, self.value, self.variant, self.layer, self.head))

    @property
    def is_missing(self) -> bool:
        """Whether a number is missing that should exist, as opposed to one that does not apply."""
        return self.value is None and not (self.note or "").startswith(NOT_APPLICABLE)

    def axis(self, name: str) -> Scalar | None:
        """The row's coordinate on an axis: `variant`, `layer`, `head`, `layer.head`, or one of `keys`."""
        if name in ("variant", "layer", "head"):
            own: Scalar | None = getattr(self, name)
            return own
        if name == "layer.head":
            return None if self.head is None else f"{self.layer}.{self.head}"
        return self.keys.get(name)

    @property
    def coordinates(self) -> dict[str, Scalar]:
        """The coordinates that distinguish the number from others of its metric."""
        axes = {"variant": self.variant, "layer": self.layer, "head": self.head}
        keys = {name: value for name, value in self.keys.items() if name not in FOUND_KEYS}
        return {name: value for name, value in axes.items() if value not in (None, "")} | keys

    @property
    def place(self) -> str:
        """Its coordinates as text: `SAN, layer 12`; empty where it has none."""
        named = self.coordinates.items()
        return ", ".join(str(v) if name == "variant" else f"{name} {v}" for name, v in named)

    def flat(self) -> JsonObject:
        """The row as one flat mapping, in the column order of the report contract; `each` only where it is kept."""
        own = {name: getattr(self, name) for name in ROW_COLUMNS}
        return {**own, **({"each": list(self.each)} if self.each else {}), **self.keys}


def format_token_position(row: Row, key: str) -> str:
    """A token of a pair and its position, `quick@12`; the position alone where tokens have no names."""
    place, word = row.keys.get(key.removesuffix("_token"), ""), row.keys.get(key)
    if word is None:
        return str(place)
    return f"{str(word).strip() or repr(str(word))}@{place}"


ROW_COLUMNS = ("metric", "variant", "layer", "head", "value", "spread", "n", "unit", "note")


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a metric: its unit and one sentence."""

    unit: str
    definition: str
    heading: str = ""
    """The heading of its column, where the name says too little to a reader."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about one thing in the report, such as the regime of a variant."""

    about: str
    text: str
    metric: str = ""
    """The metric that it is derived from, where that is one metric of heads."""
    heads: tuple[str, ...] = ()
    """Names of the heads in the text, as they appear there."""


@dataclass(frozen=True, slots=True)
class View:
    """A table of some of the rows: which axis goes down, what goes across.

    With `across` an axis, one metric is spread over that axis; with `across` None the metrics themselves are the columns.
    """

    title: str
    down: str
    metrics: tuple[str, ...]
    across: str | None = None
    where: Mapping[str, Scalar] = field(default_factory=dict)
    """Only rows with these coordinates; an empty value selects rows without that axis."""
    last_layer_only: bool = False
    """Per line, keep each metric's row of the highest layer (rows without a layer always stay)."""
    lowest_drawn: float | None = None
    """Plots leave out numbers below it, tables do not."""
    findings: str = ""
    """Show the findings instead of numbers, under this header."""
    heat: str = ""
    """Show shades instead of numbers, with the letter under this key of the row."""
    names: str = ""
    """Next to each value on the axis that goes down, show what its rows have under this key."""
    pair: tuple[str, ...] = ()
    """Before the number, what stands under these two keys of the row, and behind it uniform attention's: `fox@3 ← quick@1`."""
    measure: str = ""
    """The label of a plot's axis for the numbers across, where that is not the metric itself: `max(sink)`."""


@dataclass(frozen=True, slots=True)
class MapPicture:
    """Maps [query][key] in a row, for plots alone: other formats leave pictures out."""

    title: str
    panels: Mapping[str, tuple[tuple[float, ...], ...]]
    """Square and of one size; of several the last one is an error and has its own scale."""
    labels: tuple[str, ...] = ()
    """Names of the tokens along both sides; none where there are too many."""


Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PointTrack:
    """Tracks of points in the plane, one panel of a figure, for plots alone: other formats leave them out."""

    row: str
    column: str
    ways: tuple[tuple[Place, ...], ...]
    """Where each point was at every step."""
    taught: tuple[tuple[Place, ...], ...]
    """Where each point should have been."""


@dataclass(frozen=True, slots=True)
class MapThumbnail:
    """The map of one head, in reduced size, for HTML pages alone: no other format includes it."""

    head: str
    """Its name: `5.1`, with the stack and the kind of attention where there are several."""
    rows: int
    columns: int
    weights: bytes
    """[query][key], in 255 steps of `full`."""
    full: float
    step: int = 1
    """Tokens along the side of a cell, which shows the largest of their weights."""
    queries: tuple[str, ...] = ()
    """Names of all query tokens, and of all keys; empty where they have none."""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One gate, decided."""

    condition: str
    failed: bool
    text: str
    """The number that decided, and its coordinates."""
    stopped: bool = False
    """Whether nothing was decided, as the number could not be had; it counts as failed."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of every command; every format, gate and comparison works on it alone."""

    study: str
    headline: str
    """The answer, in one line."""
    rows: tuple[Row, ...]
    metrics: Mapping[str, Definition]
    source: Facts
    input: Facts = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    views: tuple[View, ...] = ()
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    pictures: tuple[MapPicture, ...] = ()
    tiles: tuple[MapThumbnail, ...] = ()
    tracks: tuple[PointTrack, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        """The same for equal reports; mappings cannot be hashed, and are left out."""
        return hash((self.study, self.headline, self.warnings, self.command, len(self.rows)))

    def with_verdicts(self, verdicts: Iterable[Verdict]) -> "Report":
        return replace(self, verdicts=tuple(verdicts))
