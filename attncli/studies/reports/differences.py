"""What moved between two reports: in spreads of both, or against the metric's own size where there are none."""

import math
from collections.abc import Iterator, Mapping, Sequence

from attncli.records import Definition, Finding, Report, Row, Scalar, View
from attncli.reports import Pair, side_by_side

CLEAR = 2.0
"""Spreads beyond which a change is called clear of noise."""
NAMED = 3
"""Missing rows that a warning names; the rest are counted."""

METRICS = {
    "old": Definition("the metric's own", "The number in the first report."),
    "new": Definition("the metric's own", "The number in the second report."),
    "change": Definition("the metric's own", "new - old."),
    "change_in_spreads": Definition(
        "spreads",
        "(new - old) / √(s_old² + s_new²), s the standard deviations of the two reports.",
        "change / spread",
    ),
    "relative_change": Definition(
        "1",
        "(new - old) over the largest |number| that the metric has in either report.",
        "change / largest",
    ),
}
SHOWN = {"among": "largest"}
IN_SPREADS, RELATIVE = "in spreads of both reports", "against the largest number of each metric"

Scales = Mapping[tuple[str, str], float]
"""The largest |number| of each metric and unit: what makes changes of unlike metrics comparable."""


def compare(old: Report, new: Report, names: tuple[str, str], top: int) -> Report:
    """The pairs by size; the first `top` that differ at all are what the view shows."""
    both = side_by_side(old, new)
    scales = scales_of(both)
    pairs = sorted(both, key=lambda pair: size(pair, scales), reverse=True)
    moved = [pair for pair in pairs if pair.change]
    shown = moved[:top]
    rows = tuple(row for pair in pairs for row in rows_of(pair, names, scales, pair in shown))
    columns, order = columns_of(shown)
    title = f"The {len(shown)} largest of {len(moved)} changes, {order}"
    return Report(
        study="compare",
        headline=f"{weights(old, new)}; {summary(pairs, moved, scales)}",
        rows=rows,
        metrics=METRICS,
        source={"old": identity(old, names[0]), "new": identity(new, names[1])},
        views=(View(title, "number", columns, where=SHOWN),),
        findings=(Finding("weights", weights(old, new)),),
        warnings=(*unlike(old, new), *missing(pairs, names)),
    )


def scales_of(pairs: Sequence[Pair]) -> Scales:
    found: dict[tuple[str, str], float] = {}
    for pair in pairs:
        place = (pair.row.metric, pair.row.unit)
        values = [row.value for row in (pair.old, pair.new) if row and row.value is not None]
        found[place] = max([found.get(place, 0.0), *map(abs, values)])
    return found


def relative(pair: Pair, scales: Scales) -> float | None:
    """The change as a share of the metric's largest number."""
    if pair.change is None:
        return None
    scale = scales[pair.row.metric, pair.row.unit]
    return pair.change / scale if scale else 0.0


def size(pair: Pair, scales: Scales) -> tuple[float, float]:
    """In spreads; what has none comes after what has, against its metric's size; what has no change comes last."""
    share = relative(pair, scales)
    if share is None:
        return (-2.0, 0.0)
    spreads = pair.in_spreads
    return (-1.0 if spreads is None else abs(spreads), abs(share))


def columns_of(shown: Sequence[Pair]) -> tuple[tuple[str, ...], str]:
    """What the table shows of changes, and in words by what they are sorted: spreads where there are some."""
    spread = any(pair.in_spreads is not None for pair in shown)
    bare = any(pair.in_spreads is None for pair in shown)
    columns = ["old", "new", "change", *["change_in_spreads"] * spread, *["relative_change"] * bare]
    return tuple(columns), ", then ".join(
        [*[IN_SPREADS] * spread, *[RELATIVE] * bare]
    ) or IN_SPREADS


def rows_of(pair: Pair, names: tuple[str, str], scales: Scales, shown: bool) -> Iterator[Row]:
    """Five numbers where the pair stands; a null says which report lacks it."""
    row = pair.row
    keys: dict[str, Scalar] = {**row.keys, "measured": row.metric, "number": label(row)}
    keys |= SHOWN if shown else {}
    note = None if pair.change is not None else why_not(pair, names)
    own = {
        "old": pair.old.value if pair.old else None,
        "new": pair.new.value if pair.new else None,
        "change": pair.change,
    }
    for metric, value in own.items():
        yield Row(
            metric,
            value,
            row.unit,
            row.variant,
            row.layer,
            row.head,
            note=note if value is None else None,
            keys=keys,
        )
    share, missed = relative(pair, scales), note
    spreads = pair.in_spreads
    if spreads is None or math.isinf(spreads):
        note = note or "n/a: no spread in both reports" if spreads is None else "the spreads are 0"
        spreads = None
    for metric, unit, value, why in (
        ("change_in_spreads", "spreads", spreads, note),
        ("relative_change", "1", share, missed),
    ):
        yield Row(
            metric,
            value,
            unit,
            row.variant,
            row.layer,
            row.head,
            note=why if value is None else None,
            keys=keys,
        )


def label(row: Row) -> str:
    return f"{row.metric}, {row.place}" if row.place else row.metric


def why_not(pair: Pair, names: tuple[str, str]) -> str:
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


def weights(old: Report, new: Report) -> str:
    """By the hash of the weights that were read, not by what the files are called."""
    hashes = [weight_hash(report) for report in (old, new)]
    if None in hashes:
        return "weights not hashed"
    return "the same weights" if hashes[0] == hashes[1] else "other weights"


def weight_hash(report: Report) -> str | None:
    """Of a model's tensors, or of a network file."""
    found = report.source.get("weight_sha256") or report.source.get("sha256")
    return str(found) if found else None


def summary(pairs: Sequence[Pair], moved: Sequence[Pair], scales: Scales) -> str:
    both = sum(pair.change is not None for pair in pairs)
    if not both:
        return "no number is in both reports."
    if not moved:
        return f"every number that both reports have is equal ({both})."
    clear = sum(abs(pair.in_spreads or 0.0) > CLEAR for pair in moved)
    spread = any(pair.noise is not None for pair in pairs)
    count = (
        f"{clear} by more than {CLEAR:g} spreads" if spread else "no spreads to hold them against"
    )
    return f"{len(moved)} of {both} numbers moved, {count}; most {most(moved[0], scales)}."


def most(pair: Pair, scales: Scales) -> str:
    """The number with its change in the unit that it was found by."""
    assert pair.old is not None
    assert pair.new is not None
    spreads, share = pair.in_spreads, relative(pair, scales)
    tail = f", {spreads:+.2g} spreads" if spreads is not None and math.isfinite(spreads) else ""
    if spreads is None and share is not None:
        tail = f", {share:+.2g} of the metric's largest"
    return (
        f"{label(pair.row)}: {pair.old.value:.4g} → {pair.new.value:.4g} ({pair.change:+.3g}{tail})"
    )


def identity(report: Report, name: str) -> dict[str, object]:
    return {"report": name, "study": report.study, "source": report.source}


def unlike(old: Report, new: Report) -> Iterator[str]:
    """What makes a difference of numbers hard to blame on the weights."""
    for what in ("study", "input", "seeds"):
        if getattr(old, what) != getattr(new, what):
            yield f"the reports differ in their {what}"
    for metric in sorted(old.metrics.keys() & new.metrics.keys()):
        if old.metrics[metric] != new.metrics[metric]:
            yield f"{metric} is defined differently in the two reports"


def missing(pairs: Sequence[Pair], names: tuple[str, str]) -> Iterator[str]:
    """Rows that one report lacks, said and never dropped in silence."""
    sides = ([p for p in pairs if p.new is None], [p for p in pairs if p.old is None])
    for alone, name in zip(sides, names, strict=True):
        if alone:
            named = "; ".join(label(pair.row) for pair in alone[:NAMED])
            rest = f" and {len(alone) - NAMED} more" if len(alone) > NAMED else ""
            yield f"in {name} alone: {named}{rest}"
