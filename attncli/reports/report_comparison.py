"""Changes between two reports: in standard deviations, or relative to the metric's own size where
there are none."""

import math
from collections.abc import Iterator, Mapping, Sequence

from attncli.errors import capitalize_first_letter, format_count
from attncli.maths.number_format import format_short_number
from attncli.maths.significance_tests import adjust_p_values_by_holm
from attncli.records import Definition, Finding, Report, Row, Scalar, View
from attncli.reports.json_report_reading import pause_garbage_collection
from attncli.reports.report_row_pairs import RowPair, pair_report_rows

LARGE = 2.0
"""Standard deviations above which the headline counts a change."""
NAMED = 3
"""Missing rows that a warning names; the rest are counted."""

METRICS = {
    "old": Definition("the metric's own", "The number in the first report."),
    "new": Definition("the metric's own", "The number in the second report."),
    "change": Definition("the metric's own", "new - old."),
    "change_in_spreads": Definition(
        "spreads",
        "(new - old) / s: where both reports hold the same texts or seeds, s is the standard deviation of the differences, "
        "else √(s_old² + s_new²) of the two reports' own.",
        "change / SD",
    ),
    "chance": Definition(
        "1",
        "How often noise alone would move the mean this far or farther (Student's t, two-sided), corrected for how many "
        "numbers are compared (Holm).",
    ),
    "relative_change": Definition(
        "1",
        "(new - old) over the largest |number| that the metric has in either report.",
        "change / largest",
    ),
}
SHOWN = {"among": "largest"}
IN_SPREADS, RELATIVE = (
    "by standard deviations of both reports",
    "relative to the largest number of each metric",
)

PAIRED = "by standard deviations of the paired differences"
NOT_KNOWN = "n/a: no standard deviation in both reports"
BEYOND = "beyond the largest number of float64"
CHANCE = "chance"
"""The metric that is only present if requested."""

Chances = Mapping[int, float]
"""By the pair's identity."""
Scales = Mapping[tuple[str, str], float]
"""The largest |number| of each metric and unit: makes changes of different metrics comparable."""


@pause_garbage_collection()
def compare_reports(
    old: Report, new: Report, names: tuple[str, str], top: int, family_wise: float | None = None
) -> Report:
    """Compare two reports: the pairs by size; the view shows the first `top` that differ.

    `family_wise`: a change is called more than noise where it is that unlikely among all the
    numbers.
    """
    both = pair_report_rows(old, new)
    scales = largest_value_by_metric(both)
    pairs = sorted(both, key=lambda pair: compute_sort_key_of_change(pair, scales), reverse=True)
    moved = [pair for pair in pairs if pair.change_in_value]
    shown = moved[:top]
    listed = set(map(id, shown))
    chances = compute_noise_probabilities(pairs) if family_wise is not None else None
    rows = tuple(
        row
        for pair in pairs
        for row in (
            *build_comparison_rows(pair, names, scales, id(pair) in listed),
            *build_noise_probability_rows(pair, names, id(pair) in listed, chances),
        )
    )
    columns, order = choose_comparison_columns(shown)
    columns = (*columns, CHANCE) if chances else columns
    title = f"The {len(shown)} largest of {format_count(len(moved), 'change')}, {order}"
    return Report(
        study="compare",
        headline=f"{capitalize_first_letter(compare_weights_in_words(old, new))}. {format_comparison_summary(pairs, moved, scales, describe_large_changes(moved, chances, family_wise))}",
        rows=rows,
        metrics={name: each for name, each in METRICS.items() if chances or name != CHANCE},
        source={
            "old": describe_report_source(old, names[0]),
            "new": describe_report_source(new, names[1]),
        },
        views=(View(title, "number", columns, where=SHOWN),),
        findings=(Finding("weights", compare_weights_in_words(old, new)),),
        warnings=(*warn_about_different_runs(old, new), *warn_missing_rows(pairs, names)),
    )


def compute_noise_probabilities(pairs: Sequence[RowPair]) -> Chances:
    """The probability of a change as large by noise alone, among all numbers with a standard
    deviation."""
    known = [(pair, pair.noise_probability) for pair in pairs if pair.noise_probability is not None]
    adjusted = adjust_p_values_by_holm([chance or 0.0 for _, chance in known])
    return {id(pair): chance for (pair, _), chance in zip(known, adjusted, strict=True)}


def describe_large_changes(
    moved: Sequence[RowPair], chances: Chances | None, family_wise: float | None
) -> str:
    """Describe how many changes are large or, if requested, more than noise."""
    if chances is not None and family_wise is not None:
        beyond = sum(chances.get(id(pair), 1.0) <= family_wise for pair in moved)
        return f"{beyond} by more than noise (p ≤ {family_wise:g} among {format_count(len(chances), 'number')})"
    if all(pair.noise_standard_deviation is None for pair in moved):
        return "with no standard deviations to compare with"
    return f"{sum(abs(pair.change_in_standard_deviations or 0.0) > LARGE for pair in moved)} by more than {LARGE:g} standard deviations"


def largest_value_by_metric(pairs: Sequence[RowPair]) -> Scales:
    found: dict[tuple[str, str], float] = {}
    for pair in pairs:
        for row in (pair.old, pair.new):
            if row is not None:
                place = (row.metric, row.unit)
                found[place] = max(found.get(place, 0.0), abs(row.value or 0.0))
    return found


def compute_relative_change(pair: RowPair, scales: Scales) -> float | None:
    """The change as a share of the metric's largest number."""
    if pair.change_in_value is None:
        return None
    scale = scales[pair.new_or_old_row.metric, pair.new_or_old_row.unit]
    return pair.change_in_value / scale if scale else 0.0


def compute_sort_key_of_change(pair: RowPair, scales: Scales) -> tuple[float, float]:
    """Size in standard deviations; pairs without one follow, relative to their metric's size;
    unchanged ones are last."""
    share = compute_relative_change(pair, scales)
    if share is None:
        return (-2.0, 0.0)
    spreads = pair.change_in_standard_deviations
    return (-1.0 if spreads is None else abs(spreads), abs(share))


def choose_comparison_columns(shown: Sequence[RowPair]) -> tuple[tuple[str, ...], str]:
    """The columns of the table, and the sort order in words: by standard deviations where there are
    some."""
    spread = any(pair.change_in_standard_deviations is not None for pair in shown)
    bare = any(pair.change_in_standard_deviations is None for pair in shown)
    columns = ["old", "new", "change", *["change_in_spreads"] * spread, *["relative_change"] * bare]
    in_spreads = PAIRED if any(pair.differences for pair in shown) else IN_SPREADS
    order = [*[in_spreads] * spread, *[RELATIVE] * bare] or [IN_SPREADS]
    return tuple(columns), ", then ".join(order)


def build_comparison_rows(
    pair: RowPair, names: tuple[str, str], scales: Scales, shown: bool
) -> Iterator[Row]:
    """Five rows at the pair's coordinates; a null names the report that lacks it."""
    unit = pair.new_or_old_row.unit
    note = None if pair.change_in_value is not None else explain_missing_number(pair, names)
    share, missed = compute_relative_change(pair, scales), note
    spreads = pair.change_in_standard_deviations
    if spreads is None or math.isinf(spreads):
        note = note or NOT_KNOWN if spreads is None else "the standard deviations are 0"
        spreads = None
    keys = build_comparison_row_keys(pair, shown)
    for metric, own, value, why in (
        ("old", unit, pair.old.value if pair.old else None, missed),
        ("new", unit, pair.new.value if pair.new else None, missed),
        ("change", unit, pair.change_in_value, missed),
        ("change_in_spreads", "spreads", spreads, note),
        ("relative_change", "1", share, missed),
    ):
        yield build_comparison_row(pair, metric, own, value, why, keys)


def build_noise_probability_rows(
    pair: RowPair, names: tuple[str, str], shown: bool, chances: Chances | None
) -> Iterator[Row]:
    """The probability of the change by noise alone, if requested."""
    if chances is not None:
        why = explain_missing_number(pair, names) if pair.change_in_value is None else NOT_KNOWN
        yield build_comparison_row(
            pair, CHANCE, "1", chances.get(id(pair)), why, build_comparison_row_keys(pair, shown)
        )


def build_comparison_row(
    pair: RowPair,
    metric: str,
    unit: str,
    value: float | None,
    why: str | None,
    keys: Mapping[str, Scalar],
) -> Row:
    """One row at the pair's coordinates."""
    if value is not None and math.isinf(value):
        value, why = None, BEYOND
    row, note = pair.new_or_old_row, why if value is None else None
    return Row(metric, value, unit, row.variant, row.layer, row.head, note=note, keys=keys)


def build_comparison_row_keys(pair: RowPair, shown: bool) -> Mapping[str, Scalar]:
    """The keys of all rows of a pair."""
    row = pair.new_or_old_row
    return {
        **row.keys,
        "measured": row.metric,
        "number": format_row_label(row),
        **(SHOWN if shown else {}),
    }


def format_row_label(row: Row) -> str:
    return f"{row.metric}, {row.place}" if row.place else row.metric


def explain_missing_number(pair: RowPair, names: tuple[str, str]) -> str:
    """Null in both for the same reason is no loss; one that is missing is."""
    for row, name in zip((pair.old, pair.new), names, strict=True):
        if row is None:
            return f"not in {name}"
    assert pair.old is not None
    assert pair.new is not None
    if pair.old.value is None and pair.new.value is None:
        return pair.new.note or "null"
    row, name = (pair.old, names[0]) if pair.old.value is None else (pair.new, names[1])
    return f"null in {name}: {row.note}"


def compare_weights_in_words(old: Report, new: Report) -> str:
    """Compare the models by the hash of their weights, not by their names."""
    hashes = [weight_hash(report) for report in (old, new)]
    if None in hashes:
        return "no hash of the weights"
    return "the weights are the same" if hashes[0] == hashes[1] else "the weights differ"


def weight_hash(report: Report) -> str | None:
    """The hash of a model's tensors, or of a network file."""
    found = report.source.get("weight_sha256") or report.source.get("sha256")
    return str(found) if found else None


def format_comparison_summary(
    pairs: Sequence[RowPair], moved: Sequence[RowPair], scales: Scales, count: str
) -> str:
    both = sum(pair.change_in_value is not None for pair in pairs)
    if not both:
        return "No number is in both reports."
    if not moved:
        return f"Every number that both reports have is equal ({both})."
    return f"{len(moved)} of {format_count(both, 'number')} changed, {count}; largest: {format_changed_value(moved[0], scales)}."


def format_changed_value(pair: RowPair, scales: Scales) -> str:
    """The number with its change, in the unit of the comparison."""
    old, new = (format_short_number(value, 4) for value in pair.both_values)
    change = format_short_number(float(pair.change_in_value or 0.0), 3, sign=True)
    spreads, share = pair.change_in_standard_deviations, compute_relative_change(pair, scales)
    tail = ""
    if spreads is not None and math.isfinite(spreads):
        tail = f", {format_short_number(spreads, 2, sign=True)} standard deviations"
    if spreads is None and share is not None:
        tail = f", {format_short_number(share, 2, sign=True)} of the metric's largest"
    return f"{format_row_label(pair.new_or_old_row)}: {old} → {new} ({change}{tail})"


def describe_report_source(report: Report, name: str) -> dict[str, object]:
    return {"report": name, "study": report.study, "source": report.source}


def warn_about_different_runs(old: Report, new: Report) -> Iterator[str]:
    """Warn about differences between the runs that make a change hard to attribute to the weights."""
    for what in ("study", "input", "seeds"):
        if getattr(old, what) != getattr(new, what):
            yield f"the reports differ in their {what}"
    for metric in sorted(old.metrics.keys() & new.metrics.keys()):
        if old.metrics[metric] != new.metrics[metric]:
            yield f"{metric} is defined differently in the two reports"


def warn_missing_rows(pairs: Sequence[RowPair], names: tuple[str, str]) -> Iterator[str]:
    """Warn about rows that one report lacks."""
    sides = ([p for p in pairs if p.new is None], [p for p in pairs if p.old is None])
    for alone, name in zip(sides, names, strict=True):
        if alone:
            named = "; ".join(format_row_label(pair.new_or_old_row) for pair in alone[:NAMED])
            rest = f" and {len(alone) - NAMED} more" if len(alone) > NAMED else ""
            yield f"in {name} alone: {named}{rest}"
