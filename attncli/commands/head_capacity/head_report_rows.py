"""The rows and words of `attn head-capacity`: one line for each head."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, median

from attncli.analysis.means_and_confidence_intervals import (
    confidence_interval_of_row,
    select_rows_indistinguishable_from_first,
    summarize_values,
)
from attncli.commands.head_capacity.reachable_random_patterns import (
    CAPACITY_METRICS,
    largest_fully_reachable_key_count,
)
from attncli.commands.head_capacity.required_width_and_scale import OWN_MAP_METRICS, MapRequirements
from attncli.errors import format_count
from attncli.maths.number_format import (
    format_number,
    format_short_number,
    format_two_significant_digits,
    format_with_standard_deviation,
)
from attncli.maths.significance_tests import (
    estimate_standard_deviation_of_share,
    standard_deviation,
)
from attncli.records import RANDOM, SHUFFLED, Definition, Finding, Row, RowPlace, Scalar, View

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
"""Input dependence below which a map counts as the same on every text."""
BESIDE = {SHUFFLED: "shuffled texts", RANDOM: "random weights"}
"""The nulls of input dependence, in words."""
NEEDS_TWO = "n/a: it takes two texts whose maps are of one size"


@dataclass(frozen=True)
class HeadCapacity:
    """All results of one head."""

    layer: int
    head: int
    keys: Mapping[str, Scalar]
    own: MapRequirements | str
    """Requirements of its map on the first text; or why there are none."""
    reachable_shares: "ReachableShares | str"
    changes: Sequence[float]
    """Total variation between its maps on each text and the next."""
    nulls: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def build_report_rows_of_head(self) -> Iterator[Row]:
        yield from self.build_required_width_and_scale_rows()
        yield from self.build_reachable_pattern_rows()
        controls = {name: fmean(values) for name, values in self.nulls.items() if values}
        found = list(self.changes)
        keys = {**self.keys, **(controls if found else {})}
        place: RowPlace = {"layer": self.layer, "head": self.head}
        yield summarize_values("input_dependence", "1", found, NEEDS_TWO, keys, **place)

    def build_metric_row(self, metric: str, value: float | None, note: str | None = None) -> Row:
        unit = SURVEY_METRICS[metric].unit
        return Row(metric, value, unit, layer=self.layer, head=self.head, note=note, keys=self.keys)

    def build_required_width_and_scale_rows(self) -> Iterator[Row]:
        """Rows of the requirements of the head's own map."""
        for metric in OWN_MAP_METRICS:
            if isinstance(self.own, str):
                yield self.build_metric_row(metric, None, self.own)
                continue
            value = self.own.values[metric]
            yield self.build_metric_row(
                metric, value, self.own.reasons[metric] if value is None else None
            )

    def build_reachable_pattern_rows(self) -> Iterator[Row]:
        """The head's width, and how many random patterns it shows."""
        if isinstance(self.reachable_shares, str):
            yield self.build_metric_row("d", None, self.reachable_shares)
            yield self.build_metric_row("capacity_k", None, self.reachable_shares)
            return
        yield self.build_metric_row("d", self.reachable_shares.d)
        for k, share in self.reachable_shares.shares.items():
            keys = {**self.keys, "keys_per_row": k, "dtype": self.reachable_shares.dtype}
            unit, draws = SURVEY_METRICS["capacity"].unit, self.reachable_shares.draws
            deviation = estimate_standard_deviation_of_share(share, draws)
            yield Row(
                "capacity",
                share,
                unit,
                layer=self.layer,
                head=self.head,
                spread=deviation,
                n=draws,
                keys=keys,
            )
        yield self.build_metric_row(
            "capacity_k", largest_fully_reachable_key_count(self.reachable_shares.shares)
        )


@dataclass(frozen=True)
class ReachableShares:
    """Shares of random patterns that a head's weights show."""

    d: int
    dtype: str
    draws: int
    shares: Mapping[int, float]
    """By the keys in a row."""


def collect_metric_values_by_head(rows: Sequence[Row], metric: str) -> dict[str, float]:
    """A metric's known values by `layer.head`; of several attentions of one layer with their other keys."""
    return {
        format_layer_and_head_index(row): row.value
        for row in rows
        if row.metric == metric and row.value is not None
    }


def format_layer_and_head_index(row: Row) -> str:
    return " ".join([str(row.axis("layer.head")), *list_row_keys_of_ambiguous_head(row)])


def list_row_keys_of_ambiguous_head(row: Row) -> list[str]:
    return [str(row.keys[key]) for key in ("stack", "kind", "span") if key in row.keys]


def format_head_capacity_headline(name: str, tokens: int, rows: Sequence[Row]) -> str:
    """Headline: widths found and proved against the heads' own and the theorem's, and input
    dependence."""
    wide = collect_metric_values_by_head(rows, "own_map_d")
    total = sum(row.metric == "own_map_d" for row in rows)
    proved = collect_metric_values_by_head(rows, "own_map_d_proved")
    bound = f"proved: d ≥ {format_range_and_median(proved)}" if proved else "nothing is proved"
    if not wide:
        return f"{name}, {format_count(tokens, 'token')}: a search found no module for the maps of {format_count(total, 'head')}; {bound}."
    which = f"the maps of its {format_count(total, 'head')}"
    which = which if len(wide) == total else f"{len(wide)} of {which}"
    has = sorted(set(collect_metric_values_by_head(rows, "d").values()))
    have = f"the heads have d = {' or '.join(f'{d:g}' for d in has)}; " if has else ""
    typical = format_two_significant_digits(
        median(collect_metric_values_by_head(rows, "sufficient_d").values())
    )
    sentence = f"{name}, {format_count(tokens, 'token')}: for {which} a search found d = {format_range_and_median(wide)}; {bound}; {have}the paper's construction would need d ≈ {typical}."
    moved = [row for row in rows if row.metric == "input_dependence" and row.value is not None]
    return f"{sentence} {describe_input_dependence_of_maps(moved)}." if moved else sentence


def format_range_and_median(values: Mapping[str, float]) -> str:
    """`2 … 8 (median 5)`."""
    least, middle, most = min(values.values()), median(values.values()), max(values.values())
    return f"{least:g}" if least == most else f"{least:g} … {most:g} (median {middle:g})"


def describe_input_dependence_of_maps(moved: Sequence[Row]) -> str:
    """The mean over heads with its standard error over pairs of texts, next to the controls'."""
    mean = fmean(row.value or 0.0 for row in moved)
    pairs = min(row.n for row in moved)
    shown = format_number(mean)
    if pairs > 1 and all(len(row.each) == pairs for row in moved):
        by_pair = [fmean(row.each[pair] for row in moved) for pair in range(pairs)]
        shown = format_with_standard_deviation(
            mean, (standard_deviation(by_pair, mean) or 0.0) / sqrt(pairs)
        )
    over = f", {format_count(pairs, 'pair')} of texts"
    return f"Input dependence {shown}{over}{format_means_of_random_controls(moved)}"


def format_means_of_random_controls(moved: Sequence[Row]) -> str:
    sentence = [
        f"{words} {format_number(fmean(float(row.keys[name]) for row in moved))}"
        for name, words in BESIDE.items()
        if all(name in row.keys for row in moved)
    ]
    return f" ({', '.join(sentence)})" if sentence else ""


def build_head_capacity_findings(rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield the findings that a reader would look for first in the table."""
    wide, shown = (
        collect_metric_values_by_head(rows, name) for name in ("own_map_d", "capacity_k")
    )
    moved = [row for row in rows if row.metric == "input_dependence" and row.value is not None]
    still = [row for row in moved if (row.value or 0.0) < STILL]
    if still:
        verb = "changes" if len(still) == 1 else "change"
        few = f"{len(still)} of {format_count(len(moved), 'head')} {verb} by less than {STILL:g}"
        pairs = max(row.n for row in moved)
        yield Finding(
            "the same on both texts" if pairs == 1 else "the same on every text",
            f"{few}: {format_top_heads(sorted(still, key=lambda row: row.value or 0.0))}",
        )
    if moved:
        yield Finding("follow the input most", describe_most_input_dependent_heads(moved))
    if wide:
        yield Finding("widest modules found", format_heads_with_largest_values(wide))
    if shown:
        least, most = min(shown.values()), max(shown.values())
        keys = f"{least:g}" if least == most else f"{least:g} … {most:g}"
        noun = "key" if most == 1 else "keys"
        yield Finding(
            "capacity",
            f"inputs alone show every random pattern tried with up to {keys} {noun} a row",
        )


def describe_most_input_dependent_heads(moved: Sequence[Row]) -> str:
    """In order where the errors over pairs of texts separate them."""
    order = sorted(moved, key=lambda row: -(row.value or 0.0))
    near = select_rows_indistinguishable_from_first(order)
    if confidence_interval_of_row(order[0]) is None:
        return f"{format_top_heads(order)}; on one pair of texts, which does not say how sure this order is"
    if len(near) > 1:
        return f"{format_count(len(near), 'head')} that their errors do not separate: {format_top_heads(near)}"
    return format_top_heads(order[:1])


def format_top_heads(rows: Sequence[Row], most: int = 3) -> str:
    """`3.1 (0.74), 4.11 (0.72)`: each head with its number and, where it is known, its standard error."""
    return ", ".join(
        f"{format_layer_and_head_index(row)} ({format_value_with_standard_error(row)})"
        for row in rows[:most]
    )


def format_value_with_standard_error(row: Row) -> str:
    value = row.value or 0.0
    return (
        format_integer_or_two_digits(value)
        if row.spread is None
        else format_with_standard_deviation(value, row.spread / sqrt(row.n))
    )


def format_heads_with_largest_values(values: Mapping[str, float], most: int = 3) -> str:
    """`0.1 (11), 0.0 (10)`: the first of the order."""
    order = sorted(values, key=lambda place: -values[place])
    return ", ".join(
        f"{place} ({format_integer_or_two_digits(values[place])})" for place in order[:most]
    )


def format_integer_or_two_digits(value: float) -> str:
    return f"{value:g}" if value == int(value) else format_short_number(value, 2)
