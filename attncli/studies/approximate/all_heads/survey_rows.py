"""The rows and words of `attn approximate --heads`: one line for each head."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from attncli.errors import counted
from attncli.maths.digits import number
from attncli.records import Definition, Finding, Row, Scalar, View
from attncli.studies.approximate.all_heads.own_maps import OWN_MAP_METRICS, OwnMap
from attncli.studies.approximate.all_heads.random_patterns import CAPACITY_METRICS, whole_up_to
from attncli.studies.nulls import RANDOM, SHUFFLED
from attncli.studies.statistics import summary_row

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
        ("k_median", "k", "weight_ratio", "sufficient_d", "d", "own_map_d", "own_map_logits", "logit_scale", "capacity_k", "input_dependence"),
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
            unit = SURVEY_METRICS["capacity"].unit
            yield Row("capacity", share, unit, layer=self.layer, head=self.head, n=self.shown.draws, keys=keys)  # fmt: skip
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
        " ".join([str(row.axis("layer.head")), *places_apart(row)]): row.value
        for row in rows
        if row.metric == metric and row.value is not None
    }


def places_apart(row: Row) -> list[str]:
    return [str(row.keys[key]) for key in ("stack", "kind", "span") if key in row.keys]


def headline(name: str, tokens: int, rows: Sequence[Row]) -> str:
    """How wide, against what they have and what the theorem asks for; then how far the input moves them."""
    wide = column(rows, "own_map_d")
    total = sum(row.metric == "own_map_d" for row in rows)
    if not wide:
        return f"{name}, {counted(tokens, 'token')}: no width was found for the maps of its {total} heads."
    which = "its" if len(wide) == total else f"{len(wide)} of its"
    least, middle, most = min(wide.values()), median(wide.values()), max(wide.values())
    span = f"{least:g}" if least == most else f"{least:g} … {most:g} (median {middle:g})"
    has = sorted(set(column(rows, "d").values()))
    of = f" of the {' or '.join(f'{d:g}' for d in has)} they have" if has else ""
    asked = number(median(column(rows, "sufficient_d").values()))
    said = f"{name}, {counted(tokens, 'token')}: {which} {total} heads' own maps need d = {span}{of}; the theorem asks for {asked}."
    moved = column(rows, "input_dependence")
    if not moved:
        return said
    return f"{said} Input dependence {number(fmean(moved.values()))}{beside_nulls(rows)}."


def beside_nulls(rows: Sequence[Row]) -> str:
    moved = [row for row in rows if row.metric == "input_dependence" and row.value is not None]
    said = [
        f"{words} {number(fmean(float(row.keys[name]) for row in moved))}"
        for name, words in BESIDE.items()
        if all(name in row.keys for row in moved)
    ]
    return f" ({', '.join(said)})" if said else ""


def findings(rows: Sequence[Row]) -> Iterator[Finding]:
    """What a reader would look for in the table first."""
    moved, wide, shown = (
        column(rows, name) for name in ("input_dependence", "own_map_d", "capacity_k")
    )
    still = {place: value for place, value in moved.items() if value < STILL}
    if still:
        few = f"{len(still)} of {counted(len(moved), 'head')} move by less than {STILL:g}"
        yield Finding("the same on every text", f"{few}: {largest(still, rising=True)}")
    if moved:
        yield Finding("follow the input most", largest(moved))
    if wide:
        yield Finding("widest own maps", largest(wide))
    if shown:
        least, most = min(shown.values()), max(shown.values())
        span = f"{least:g}" if least == most else f"{least:g} … {most:g}"
        yield Finding("capacity", f"every random pattern tried of up to {span} keys a row is shown by inputs alone")  # fmt: skip


def largest(values: Mapping[str, float], rising: bool = False, most: int = 3) -> str:
    """`3.1 (0.74), 4.11 (0.72)`: the first of the order."""
    order = sorted(values, key=lambda place: values[place], reverse=not rising)
    return ", ".join(f"{place} ({shortly(values[place])})" for place in order[:most])


def shortly(value: float) -> str:
    return f"{value:g}" if value == int(value) else f"{value:.2g}"
