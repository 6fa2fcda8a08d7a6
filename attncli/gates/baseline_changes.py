"""Changes against a baseline: `--fail-on`."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from attncli.errors import NoBaseline, UsageError, format_count
from attncli.gates.conditions import AGGREGATES
from attncli.gates.row_selection import (
    SUBJECT,
    RowSelection,
    describe_missing_row_value,
    format_row_axis_values,
    parse_axis_selectors,
    select_gated_rows,
)
from attncli.maths.number_format import format_short_number
from attncli.maths.significance_tests import adjust_p_values_by_holm
from attncli.records import Report, Row, Verdict
from attncli.reports.report_row_pairs import RowPair, combine_row_pairs, pair_report_rows

GRAMMAR = re.compile(
    SUBJECT
    + r":\s*+(?P<sign>[+-]?)(?:p\s*+(?P<share>[\d.]++(?:e[+-]?\d++)?)"
    + r"|(?P<number>[\d.]++(?:e[+-]?\d++)?)\s*+(?P<unit>[%s]?))\s*+"
)
EXAMPLES = "'sink:p.05', 'log10_residual:-0.5', 'sink:5%', 'sink:2s' or 'mean(sink):-p.05'"
CHANCE = "p"
"""The unit of limits by chance."""
REACHED = 0.003
"""How often noise alone may reach a limit in standard deviations before the verdict warns: one number of fewer than 5 texts
reaches 2 of them that often, and so do some of many numbers of more texts.
"""


@dataclass(frozen=True, slots=True)
class AllowedChange(RowSelection):
    """A limit on how far numbers may move from those of a baseline."""

    option_name: ClassVar[str] = "the gate"

    aggregate: str
    """How several numbers are aggregated before they are compared; empty: each by itself."""
    sign: str
    """`-` looks at falls alone, `+` at rises, an empty sign at both."""
    limit: float
    unit: str
    """Nothing = the metric's own, `%` of the baseline's number, `s` standard deviations: of the differences where both
    reports hold the same texts or seeds, else of both; `p`: how often noise alone may fail the gate."""

    @property
    def is_limit_relative_to_noise(self) -> bool:
        return self.unit in ("s", CHANCE)

    def measure_signed_change(self, pair: RowPair) -> float:
        """The pair's change in this unit, positive in the direction that fails; by chance the least likely is the largest."""
        if self.unit == CHANCE:
            return -self.noise_probability(pair)
        change = self.convert_change_to_limit_unit(pair)
        return {"-": -change, "+": change, "": abs(change)}[self.sign]

    def convert_change_to_limit_unit(self, pair: RowPair) -> float:
        change, old = pair.change_in_value, pair.old
        assert change is not None
        assert old is not None
        if self.unit == "s":
            return self.convert_change_to_standard_deviations(pair)
        if self.unit == "%" and change:
            return 100.0 * change / abs(old.value) if old.value else math.copysign(math.inf, change)
        return change

    def convert_change_to_standard_deviations(self, pair: RowPair) -> float:
        """The change in standard deviations; without one, the question is open unless the numbers are equal."""
        if pair.change_in_value == 0.0:
            return 0.0
        if pair.change_in_standard_deviations is None:
            raise self.make_missing_standard_deviation_error(pair)
        return pair.change_in_standard_deviations

    def make_missing_standard_deviation_error(self, pair: RowPair) -> UsageError:
        """The refusal for a number of unknown noise."""
        where = format_row_axis_values(pair.new_or_old_row).removesuffix(":")
        return UsageError(
            f"the gate '{self.text}' needs standard deviations in both reports, and one of them has none"
            f"{'' if where == 'value' else f' at {where}'}: "
            "measure several texts or seeds, or give another limit, such as 5%."
        )

    def noise_probability(self, pair: RowPair) -> float:
        """The probability that noise alone moves as far in the direction that fails."""
        if pair.change_in_value == 0.0:
            return 1.0
        toward, chance = self.convert_change_to_standard_deviations(pair), pair.noise_probability
        if chance is None:
            raise UsageError(
                f"the gate '{self.text}' asks how likely a change is by noise alone, and of {format_row_axis_values(pair.new_or_old_row)} it is not "
                "known over how many texts or seeds it was measured: save both reports again."
            )
        if not self.sign:
            return chance
        return chance / 2 if (toward > 0) == (self.sign == "+") else 1.0 - chance / 2

    def compute_probability_of_reaching_limit(self, pair: RowPair) -> float:
        """The probability that noise alone reaches a limit in standard deviations."""
        if pair.change_in_value == 0.0 or not pair.noise_standard_deviation:
            return 0.0
        chance = (
            pair.compute_probability_of_change(self.limit * pair.noise_standard_deviation) or 0.0
        )
        return chance / 2 if self.sign else chance


@dataclass(frozen=True)
class ChangeCheck:
    """A change and the numbers that it applies to."""

    change: AllowedChange
    pairs: Sequence[RowPair] = ()
    fresh: int = 0
    """How many numbers the baseline does not have."""
    missing_message: str = ""
    """The message about a number that got lost; no other check applies then."""

    @cached_property
    def noise_probabilities(self) -> list[float]:
        """For each number, the probability that noise alone moves any of them as far (Holm)."""
        return adjust_p_values_by_holm([self.change.noise_probability(pair) for pair in self.pairs])

    def pairs_past_limit(self) -> list[RowPair]:
        """The numbers that moved past the limit."""
        change = self.change
        if change.unit == CHANCE:
            found = zip(self.pairs, self.noise_probabilities, strict=True)
            return [pair for pair, chance in found if chance <= change.limit]
        return [pair for pair in self.pairs if change.measure_signed_change(pair) > change.limit]

    def largest_change_index(self) -> int:
        """The index of the number that moved farthest in the direction that fails."""
        return max(
            range(len(self.pairs)),
            key=lambda place: self.change.measure_signed_change(self.pairs[place]),
        )

    def bound_probability_of_reaching_limit(self) -> float:
        """An upper bound on the probability that noise alone takes any of these numbers to a limit in standard deviations."""
        if self.change.unit != "s":
            return 0.0
        return min(
            1.0, math.fsum(map(self.change.compute_probability_of_reaching_limit, self.pairs))
        )


def require_probability(family_wise: float | None) -> None:
    if family_wise is not None and not 0.0 < family_wise < 1.0:
        raise UsageError(f"`family_wise={family_wise:g}`: it must be between 0 and 1, as in .05.")


def parse_allowed_change(text: str) -> AllowedChange:
    match = GRAMMAR.fullmatch(text)
    limit = parse_change_limit(match["share"] or match["number"]) if match else math.nan
    opened = bool(match and match["aggregate"])
    named = match["aggregate"] if match else None
    if match is None or not math.isfinite(limit) or opened != bool(match["close"]):
        raise UsageError(f"cannot read the change '{text}': write it like {EXAMPLES}.")
    if named not in (None, *AGGREGATES):
        raise UsageError(
            f"cannot read the change '{text}': {named}() makes no number; take min(), max() or mean()."
        )
    if match["share"] and not 0.0 < limit < 1.0:
        raise UsageError(
            f"cannot read the change '{text}': a chance is between 0 and 1, as in 'sink:p.05'."
        )
    return AllowedChange(
        text=text.strip(),
        metric=match["metric"],
        selectors=parse_axis_selectors(text, match["selectors"]),
        aggregate=named or "",
        sign=match["sign"],
        limit=limit,
        unit=CHANCE if match["share"] else match["unit"],
    )


def parse_change_limit(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def decide_baseline_gates(
    report: Report,
    baseline: Report,
    changes: Iterable[AllowedChange],
    name: str,
    family_wise: float | None = None,
) -> list[Verdict]:
    """One verdict per change; `name` is what the sentences call the baseline.

    `family_wise`: how often noise alone may fail any of the gates by chance or in standard deviations. A number then fails
    where it exceeds its limit and its change is that unlikely, corrected for all the numbers that these gates look at.
    """
    pairs = pair_report_rows(baseline, report)
    questions = [
        match_gate_with_row_pairs(change, pairs, report, baseline, name) for change in changes
    ]
    noise = find_changes_within_noise(questions, family_wise)
    return [decide_baseline_gate(one, noise) for one in questions]


def match_gate_with_row_pairs(
    change: AllowedChange, pairs: Sequence[RowPair], report: Report, baseline: Report, name: str
) -> ChangeCheck:
    """Make a check: numbers that the baseline has and the report lost fail; new numbers are counted and reported."""
    before, after = select_row_identities(baseline, change), select_row_identities(report, change)
    if not before and not after:
        select_gated_rows(report, change)  # says what there is
    about = [pair for pair in pairs if id(pair.old) in before or id(pair.new) in after]
    gone = [pair for pair in about if is_number_missing_from_report(pair)]
    if gone:
        return ChangeCheck(change, missing_message=describe_missing_number(gone[0], name))
    both = [pair for pair in about if pair.change_in_value is not None]
    if not both:
        raise NoBaseline(
            f"{name} has no number to compare '{change.text}' with: save a new baseline."
        )
    fresh = sum(is_row_with_number(pair.new) and not is_row_with_number(pair.old) for pair in about)
    if change.aggregate:
        both = [combine_row_pairs(both, AGGREGATES[change.aggregate], change.metric)]
    return ChangeCheck(change, both, fresh)


def find_changes_within_noise(
    questions: Sequence[ChangeCheck], family_wise: float | None
) -> set[tuple[int, int]] | None:
    """Changes with their pairs that may be noise, corrected over all gates; None if no gate needs it."""
    if family_wise is None:
        return None
    noise_questions = [
        (one.change, pair)
        for one in questions
        if one.change.is_limit_relative_to_noise
        for pair in one.pairs
    ]
    chances = adjust_p_values_by_holm(
        [change.noise_probability(pair) for change, pair in noise_questions]
    )
    return {
        (id(change), id(pair))
        for (change, pair), chance in zip(noise_questions, chances, strict=True)
        if chance > family_wise
    }


def select_row_identities(report: Report, change: AllowedChange) -> set[int]:
    """Identities of the selected rows; one report may have none of them."""
    try:
        return {id(row) for row in select_gated_rows(report, change)}
    except UsageError:
        return set()


def is_row_with_number(row: Row | None) -> bool:
    return row is not None and row.value is not None


def is_number_missing_from_report(pair: RowPair) -> bool:
    """Whether the baseline has the number and the report lacks it, or newly has none."""
    newly_lost = (
        pair.new is not None and pair.new.is_missing and not (pair.old and pair.old.is_missing)
    )
    return newly_lost or (is_row_with_number(pair.old) and not is_row_with_number(pair.new))


def describe_missing_number(pair: RowPair, name: str) -> str:
    if pair.new is not None:
        return describe_missing_row_value(pair.new)
    return f"no number to test: {format_row_axis_values(pair.new_or_old_row)} it is in {name} alone"


def decide_baseline_gate(check: ChangeCheck, noise: set[tuple[int, int]] | None) -> Verdict:
    """Decide a change: how many numbers moved too far, and which moved farthest in the direction that fails."""
    change, pairs = check.change, check.pairs
    if check.missing_message:
        return Verdict(change.text, True, check.missing_message)
    far = check.pairs_past_limit()
    past = sum((id(change), id(pair)) not in (noise or ()) for pair in far)
    limit = "noise" if change.unit == CHANCE else "the limit"
    which = "farthest" if far else "closest"
    count = f"{past} of {format_count(len(pairs), 'value')} beyond {limit}; {which}"
    if len(pairs) == 1:
        count = f"{'beyond' if past else 'within'} {limit}"
    text = f"{count}: {describe_largest_change(check)}"
    if past < len(far):
        text += f"; {len(far) - past} more beyond {limit} may be noise among all gates"
    if check.fresh:
        text += f"; {check.fresh} not in the baseline"
    return Verdict(
        change.text, past > 0, text + (describe_noise_chance(check) if noise is None else "")
    )


def describe_largest_change(check: ChangeCheck) -> str:
    """`SAN, layer 12: -7.6 → -8.4 (-0.8)`, and in the gate's unit."""
    pair = check.pairs[check.largest_change_index()]
    old, new = (format_short_number(value, 6) for value in pair.both_values)
    return f"{format_row_axis_values(pair.new_or_old_row)} {old} → {new} ({describe_change_in_gate_unit(pair, check)})"


def describe_change_in_gate_unit(pair: RowPair, check: ChangeCheck) -> str:
    change, size = (
        check.change,
        format_short_number(check.change.convert_change_to_limit_unit(pair), 3, sign=True),
    )
    paired = ", paired" * bool(pair.differences) + f", n = {format_sample_counts(pair)}"
    if change.unit == CHANCE:
        among = f" among {format_count(len(check.pairs), 'value')}" if len(check.pairs) > 1 else ""
        return f"{size}, p = {check.noise_probabilities[check.largest_change_index()]:.2g}{among}{paired}"
    return f"{size} standard deviations{paired}" if change.unit == "s" else size + change.unit


def describe_noise_chance(check: ChangeCheck) -> str:
    """Describe how often noise alone is as large, which a limit in standard deviations does not cover."""
    chance = check.bound_probability_of_reaching_limit()
    if chance < REACHED:
        return ""
    texts = format_sample_counts(check.pairs[check.largest_change_index()])
    among = f"chance up to {chance:.1g} among {format_count(len(check.pairs), 'value')}"
    return f"; noise alone can reach {check.change.limit:g} standard deviations at n = {texts} ({among})"


def format_sample_counts(pair: RowPair) -> str:
    """Format counts of texts or seeds: `8`, or `8 and 12` where the reports differ."""
    return " and ".join(map(str, pair.sample_counts))
