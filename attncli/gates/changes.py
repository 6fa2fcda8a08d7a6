"""Changes against a baseline: `--fail-on`."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attncli.errors import NoBaseline, UsageError
from attncli.gates.selection import Selection, counted, lost, place, select, selectors
from attncli.records import Report, Row, Verdict
from attncli.reports import Pair, side_by_side

GRAMMAR = re.compile(
    r"\s*+(?P<metric>\w++)\s*+(?:\[(?P<selectors>[^\]]*+)\]\s*+)?"
    r":\s*+(?P<sign>[+-]?)(?P<number>[\d.]++(?:e[+-]?\d++)?)\s*+(?P<unit>[%s]?)\s*+"
)
EXAMPLES = "'log10_residual:-0.5', 'sink:5%' or 'sink:2s'"


@dataclass(frozen=True, slots=True)
class Change(Selection):
    """How far numbers may move away from those of a baseline."""

    sign: str
    """`-` looks at falls alone, `+` at rises, nothing at both."""
    limit: float
    unit: str
    """Nothing = the metric's own, `%` of the baseline's number, `s` spreads of both."""

    def size(self, pair: Pair) -> float:
        """The pair's change in this unit, positive in the direction that fails."""
        change = self.measured(pair)
        return {"-": -change, "+": change, "": abs(change)}[self.sign]

    def measured(self, pair: Pair) -> float:
        change, old = pair.change, pair.old
        assert change is not None
        assert old is not None
        if self.unit == "s":
            return self.in_spreads(pair)
        if self.unit == "%" and change:
            return 100.0 * change / abs(old.value) if old.value else math.copysign(math.inf, change)
        return change

    def in_spreads(self, pair: Pair) -> float:
        """Clear of noise is a question that numbers without a spread leave open, unless they are the same."""
        if pair.change == 0.0:
            return 0.0
        if pair.in_spreads is None:
            raise UsageError(
                f"the gate '{self.text}' needs spreads, and {place(pair.row)} has none in both reports: "
                "measure several seeds or texts, or give a limit without s."
            )
        return pair.in_spreads


def parse_change(text: str) -> Change:
    match = GRAMMAR.fullmatch(text)
    try:
        limit = float(match["number"]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit):
        raise UsageError(f"cannot read the change '{text}': write it like {EXAMPLES}.")
    return Change(
        text=text.strip(),
        metric=match["metric"],
        selectors=selectors(text, match["selectors"]),
        sign=match["sign"],
        limit=limit,
        unit=match["unit"],
    )


def decide_changes(
    report: Report, baseline: Report, changes: Iterable[Change], name: str
) -> list[Verdict]:
    """One verdict per change; `name` is what the sentences call the baseline."""
    pairs = side_by_side(baseline, report)
    return [verdict(change, pairs, report, baseline, name) for change in changes]


def verdict(
    change: Change, pairs: Sequence[Pair], report: Report, baseline: Report, name: str
) -> Verdict:
    """Numbers that the baseline has and the report lost fail; numbers that are new are counted and said."""
    before, after = chosen(baseline, change), chosen(report, change)
    if not before and not after:
        select(report, change)  # says what there is
    about = [pair for pair in pairs if id(pair.old) in before or id(pair.new) in after]
    gone = [pair for pair in about if is_gone(pair)]
    if gone:
        return Verdict(change.text, True, missing(gone[0], name))
    both = [pair for pair in about if pair.change is not None]
    if not both:
        raise NoBaseline(
            f"{name} has no number to compare '{change.text}' with: save a new baseline."
        )
    fresh = sum(has_number(pair.new) and not has_number(pair.old) for pair in about)
    return judged(change, both, fresh)


def chosen(report: Report, change: Change) -> set[int]:
    """Identities of the rows that the change speaks about; one report may have none of them."""
    try:
        return {id(row) for row in select(report, change)}
    except UsageError:
        return set()


def has_number(row: Row | None) -> bool:
    return row is not None and row.value is not None


def is_gone(pair: Pair) -> bool:
    """A number that the baseline has and the report has not, or one that the report has newly lost."""
    newly_lost = pair.new is not None and pair.new.lost and not (pair.old and pair.old.lost)
    return newly_lost or (has_number(pair.old) and not has_number(pair.new))


def missing(pair: Pair, name: str) -> str:
    if pair.new is not None:
        return lost(pair.new)
    return f"no number to test: {place(pair.row)} it is in {name} alone"


def judged(change: Change, pairs: Sequence[Pair], fresh: int) -> Verdict:
    """How many moved too far, and the one that moved farthest in the direction that fails."""
    sizes = [change.size(pair) for pair in pairs]
    past = sum(size > change.limit for size in sizes)
    farthest = pairs[max(range(len(pairs)), key=sizes.__getitem__)]
    text = f"{past} of {counted(pairs)}; {place(farthest.row)} {moved(farthest, change)}"
    if fresh:
        text += f"; {fresh} not in the baseline"
    return Verdict(change.text, past > 0, text)


def moved(pair: Pair, change: Change) -> str:
    """`-7.6 → -8.4 (-0.8)`, and in the gate's unit."""
    assert pair.old is not None
    assert pair.new is not None
    unit = {"s": " s"}.get(change.unit, change.unit)
    return f"{pair.old.value:.6g} → {pair.new.value:.6g} ({change.measured(pair):+.3g}{unit})"
