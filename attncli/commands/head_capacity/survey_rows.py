"""The rows and words of `attn head-capacity`: one line for each head."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, median
from typing import Any

from attncli.analysis.controls import RANDOM, SHUFFLED
from attncli.analysis.statistics import interval_of, near_largest, summary_row
from attncli.commands.head_capacity.own_maps import OWN_MAP_METRICS, OwnMap
from attncli.commands.head_capacity.random_patterns import CAPACITY_METRICS, whole_up_to
from attncli.errors import counted
from attncli.maths.digits import about, number, with_spread
from attncli.maths.noise import share_spread, spread
from attncli.records import Definition, Finding, Row, Scalar, View

SURVEY_METRICS: Mapping[str, Definition] = {
    "d": Definition("features", "Query and key width that the head has."),
    **OWN_MAP_METRICS,
    **CAPACITY_METRICS,
    "input_dependence": Definition(
        "1",
        "Mean total variation between the rows of the head's maps on two texts of one length: 0 where the map follows "
        "from positions alone, 1 where no weight stays.",
    ),
}

VIEWS = (
    View(
        "Each head's own map, and what the head could show",
        "layer.head",
        ("k_median", "k", "weight_ratio", "sufficient_d", "d", "own_map_d_proved", "own_map_d", "own_map_logits", "logit_scale", "capacity_k", "input_dependence"),
    ),
    View("What stands out", "about", (), findings="finding"),
)  # fmt: skip

STILL = 0.02
"""Input dependence below which a map is said to be the same on every text."""
BESIDE = {SHUFFLED: "shuffled texts", RANDOM: "random weights"}
"""The nulls of input dependence, in words."""
NEEDS_TWO = "n/a: it takes two texts whose maps are of one size"


@dataclass(frozen=True)
class SurveyedHead:
    """Everything found out about one head."""

    layer: int
    head: int
    keys: Mapping[str, Scalar]
    own: OwnMap | str
    """Of its map on the first text; or why it has none."""
    shown: "ShownShares | str"
    changes: Sequence[float]
    """Total variation between its maps on each text and the next."""
    nulls: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        yield from self.map_rows()
        yield from self.shown_rows()
        beside = {name: fmean(values) for name, values in self.nulls.items() if values}
        found = list(self.changes)
        keys = {**self.keys, **(beside if found else {})}
        place: dict[str, Any] = {"layer": self.layer, "head": self.head}
        yield summary_row("input_dependence", "1", found, NEEDS_TWO, keys, **place)

    def row(self, metric: str, value: float | None, note: str | None = None) -> Row:
        unit = SURVEY_METRICS[metric].unit
        return Row(metric, value, unit, layer=self.layer, head=self.head, note=note, keys=self.keys)

    def map_rows(self) -> Iterator[Row]:
        """What the head's own map asks for."""
        for metric in OWN_MAP_METRICS:
            if isinstance(self.own, str):
                yield self.row(metric, None, self.own)
                continue
            value = self.own.values[metric]
            yield self.row(metric, value, self.own.reasons[metric] if value is None else None)

    def shown_rows(self) -> Iterator[Row]:
        """The head's width, and how many random patterns it shows."""
        if isinstance(self.shown, str):
            yield self.row("d", None, self.shown)
            yield self.row("capacity_k", None, self.shown)
            return
        yield self.row("d", self.shown.d)
        for k, share in self.shown.shares.items():
            keys = {**self.keys, "keys_per_row": k, "dtype": self.shown.dtype}
            unit, draws = SURVEY_METRICS["capacity"].unit, self.shown.draws
            deviation = share_spread(share, draws)
            yield Row("capacity", share, unit, layer=self.layer, head=self.head, spread=deviation, n=draws, keys=keys)  # fmt: skip
        yield self.row("capacity_k", whole_up_to(self.shown.shares))


@dataclass(frozen=True)
class ShownShares:
    """What a head's weights show of random patterns."""

    d: int
    dtype: str
    draws: int
    shares: Mapping[int, float]
    """By the keys in a row."""


def column(rows: Sequence[Row], metric: str) -> dict[str, float]:
    """A metric's known values by `layer.head`; of several attentions of one layer with their other keys."""
    return {
        place_of(row): row.value for row in rows if row.metric == metric and row.value is not None
    }


def place_of(row: Row) -> str:
    return " ".join([str(row.axis("layer.head")), *places_apart(row)])


def places_apart(row: Row) -> list[str]:
    return [str(row.keys[key]) for key in ("stack", "kind", "span") if key in row.keys]


def headline(name: str, tokens: int, rows: Sequence[Row]) -> str:
    """The widths found and proved, against what the heads have and the theorem asks for; how far the input moves them."""
    wide = column(rows, "own_map_d")
    total = sum(row.metric == "own_map_d" for row in rows)
    proved = column(rows, "own_map_d_proved")
    bound = f"proved: d ≥ {span(proved)}" if proved else "nothing is proved"
    if not wide:
        return f"{name}, {counted(tokens, 'token')}: a search found no module for the maps of {counted(total, 'head')}; {bound}."
    which = f"the maps of its {counted(total, 'head')}"
    which = which if len(wide) == total else f"{len(wide)} of {which}"
    has = sorted(set(column(rows, "d").values()))
    have = f"the heads have d = {' or '.join(f'{d:g}' for d in has)}; " if has else ""
    asked = about(median(column(rows, "sufficient_d").values()))
    said = f"{name}, {counted(tokens, 'token')}: for {which} a search found d = {span(wide)}; {bound}; {have}the paper's construction would need d ≈ {asked}."
    moved = [row for row in rows if row.metric == "input_dependence" and row.value is not None]
    return f"{said} {dependence_in_words(moved)}." if moved else said


def span(values: Mapping[str, float]) -> str:
    """`2 … 8 (median 5)`."""
    least, middle, most = min(values.values()), median(values.values()), max(values.values())
    return f"{least:g}" if least == most else f"{least:g} … {most:g} (median {middle:g})"


def dependence_in_words(moved: Sequence[Row]) -> str:
    """The mean over heads with its standard error over pairs of texts, next to the controls'."""
    mean = fmean(row.value or 0.0 for row in moved)
    pairs = min(row.n for row in moved)
    shown = number(mean)
    if pairs > 1 and all(len(row.each) == pairs for row in moved):
        by_pair = [fmean(row.each[pair] for row in moved) for pair in range(pairs)]
        shown = with_spread(mean, (spread(by_pair, mean) or 0.0) / sqrt(pairs))
    over = f", {counted(pairs, 'pair')} of texts"
    return f"Input dependence {shown}{over}{beside_nulls(moved)}"


def beside_nulls(moved: Sequence[Row]) -> str:
    said = [
        f"{words} {number(fmean(float(row.keys[name]) for row in moved))}"
        for name, words in BESIDE.items()
        if all(name in row.keys for row in moved)
    ]
    return f" ({', '.join(said)})" if said else ""


def findings(rows: Sequence[Row]) -> Iterator[Finding]:
    """What a reader would look for in the table first."""
    wide, shown = (column(rows, name) for name in ("own_map_d", "capacity_k"))
    moved = [row for row in rows if row.metric == "input_dependence" and row.value is not None]
    still = [row for row in moved if (row.value or 0.0) < STILL]
    if still:
        verb = "changes" if len(still) == 1 else "change"
        few = f"{len(still)} of {counted(len(moved), 'head')} {verb} by less than {STILL:g}"
        yield Finding(
            "the same on every text",
            f"{few}: {first_of(sorted(still, key=lambda row: row.value or 0.0))}",
        )
    if moved:
        yield Finding("follow the input most", most_moved(moved))
    if wide:
        yield Finding("widest modules found", largest(wide))
    if shown:
        least, most = min(shown.values()), max(shown.values())
        keys = f"{least:g}" if least == most else f"{least:g} … {most:g}"
        yield Finding("capacity", f"inputs alone show every random pattern tried with up to {keys} keys a row")  # fmt: skip


def most_moved(moved: Sequence[Row]) -> str:
    """In order where the errors over pairs of texts separate them."""
    order = sorted(moved, key=lambda row: -(row.value or 0.0))
    near = near_largest(order)
    if interval_of(order[0]) is None:
        return f"{first_of(order)}; on one pair of texts, which does not say how sure this order is"
    if len(near) > 1:
        return f"{counted(len(near), 'head')} that their errors do not separate: {first_of(near)}"
    return first_of(order[:1])


def first_of(rows: Sequence[Row], most: int = 3) -> str:
    """`3.1 (0.74), 4.11 (0.72)`: each head with its number and, where it is known, its standard error."""
    return ", ".join(f"{place_of(row)} ({value_in_words(row)})" for row in rows[:most])


def value_in_words(row: Row) -> str:
    value = row.value or 0.0
    return shortly(value) if row.spread is None else with_spread(value, row.spread / sqrt(row.n))


def largest(values: Mapping[str, float], most: int = 3) -> str:
    """`0.1 (11), 0.0 (10)`: the first of the order."""
    order = sorted(values, key=lambda place: -values[place])
    return ", ".join(f"{place} ({shortly(values[place])})" for place in order[:most])


def shortly(value: float) -> str:
    return f"{value:g}" if value == int(value) else f"{value:.2g}"
