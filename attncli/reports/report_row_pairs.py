"""Pair the rows of two reports, and compare their differences with their noise.

Where both reports have the same texts, or the same seeds, numbers are compared text by text: what
texts have in common cancels, and the standard deviation of the differences is the noise.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attncli.maths.significance_tests import (
    compute_two_sided_p_value,
    compute_welch_degrees_of_freedom,
    mean,
    standard_deviation,
)
from attncli.records import Report, Row
from attncli.tolerances import OTHER_MACHINE

Place = tuple[object, ...]
Order = Sequence[int]
"""For each text of the new report its index in the old one."""


@dataclass(frozen=True)
class RowPair:
    """One number in two reports; `None` where a report does not have it."""

    old: Row | None
    new: Row | None
    differences: tuple[float, ...] = ()
    """new - old for each text or seed; empty where the reports do not have the same ones."""

    @property
    def new_or_old_row(self) -> Row:
        """The row of the pair's coordinates."""
        row = self.new or self.old
        assert row is not None
        return row

    @property
    def change_in_value(self) -> float | None:
        """new - old, where both are numbers."""
        return self.both_values[1] - self.both_values[0] if self.both_values else None

    @property
    def both_values(self) -> tuple[()] | tuple[float, float]:
        """The old and the new value, where both are numbers."""
        old, new = (row.value if row else None for row in (self.old, self.new))
        return (old, new) if old is not None and new is not None else ()

    @property
    def noise_standard_deviation(self) -> float | None:
        """The standard deviation of the differences, or √(s_old² + s_new²): that of one draw from each."""
        if self.old is None or self.new is None:
            return None
        if self.differences:
            return self.estimate_noise_of_differences(self.old, self.new)
        if self.old.spread is None or self.new.spread is None:
            return None
        return math.hypot(self.old.spread, self.new.spread)

    def estimate_noise_of_differences(self, old: Row, new: Row) -> float:
        size = max(map(abs, (*old.each, *new.each)))
        return max(
            standard_deviation(self.differences, mean(self.differences)) or 0.0,
            OTHER_MACHINE.tolerance_for_dtype() * size,
        )

    @cached_property
    def change_in_standard_deviations(self) -> float | None:
        """The change in standard deviations; infinite where neither side varies and they differ."""
        return divide_change_by_noise(self.mean_change, self.noise_standard_deviation)

    @property
    def mean_change(self) -> float | None:
        """The tested change: of paired numbers the mean difference, which differs from the change
        only for maxima."""
        if self.change_in_value is None or not self.differences:
            return self.change_in_value
        return mean(self.differences)

    @property
    def sample_counts(self) -> tuple[int, ...]:
        """How many texts or seeds there are: the same ones in both reports, or how many each has."""
        if self.differences:
            return (len(self.differences),)
        return tuple(row.n for row in (self.old, self.new) if row is not None)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean change, and no less than rounding, which more texts do not average away."""
        if self.noise_standard_deviation is None or min(self.sample_counts) < 2:
            return None
        assert self.old is not None
        assert self.new is not None
        least = OTHER_MACHINE.tolerance_for_dtype() * max(
            abs(mean_of_report_row(self.old)), abs(mean_of_report_row(self.new))
        )
        if self.differences:
            deviation = standard_deviation(self.differences, mean(self.differences))
            return max((deviation or 0.0) / math.sqrt(self.sample_counts[0]), least)
        parts = ((row.spread or 0.0) / math.sqrt(row.n) for row in (self.old, self.new))
        return max(math.hypot(*parts), least)

    @property
    def noise_probability(self) -> float | None:
        """The probability that noise alone moves the mean this far or farther; None without a
        standard deviation."""
        if self.change_in_value is None or self.old is None or self.new is None:
            return None
        return self.compute_probability_of_change(
            mean_of_report_row(self.new) - mean_of_report_row(self.old)
        )

    def compute_probability_of_change(self, change: float) -> float | None:
        """The probability of a change at least this large by Student's t: of paired numbers, or
        Welch's."""
        error = self.standard_error
        if error is None or self.old is None or self.new is None:
            return None
        first, second = ((row.spread or 0.0, row.n) for row in (self.old, self.new))
        freedom = (
            self.sample_counts[0] - 1
            if self.differences
            else compute_welch_degrees_of_freedom(first, second)
        )
        return compute_two_sided_p_value(divide_change_by_noise(change, error) or 0.0, freedom)


def mean_of_report_row(row: Row) -> float:
    """The mean, also of a metric that reports its maximum, since Student's t is about means."""
    return mean(row.each) if row.each else row.value or 0.0


def divide_change_by_noise(change: float | None, noise: float | None) -> float | None:
    if change is None or noise is None:
        return None
    if noise == 0.0:
        return math.copysign(math.inf, change) if change else 0.0
    return change / noise


def pair_report_rows(old: Report, new: Report) -> list[RowPair]:
    """Every row of either report once: in the order of the new one, then rows of the old one only."""
    before, after = (
        dict(index_rows_by_axis_values(old.rows)),
        dict(index_rows_by_axis_values(new.rows)),
    )
    on_texts, same_draws = match_sample_order(old, new), old.seeds == new.seeds
    drawn_for = {*list_metrics_on_random_tokens(old), *list_metrics_on_random_tokens(new)}

    def pair_two_rows(first: Row | None, second: Row) -> RowPair:
        draws = range(len(first.each)) if first is not None and same_draws else None
        return pair_rows_with_differences(
            first, second, draws if second.metric in drawn_for else on_texts
        )

    both = [pair_two_rows(before.pop(place, None), row) for place, row in after.items()]
    return [*both, *(RowPair(row, None) for row in before.values())]


def list_metrics_on_random_tokens(report: Report) -> list[str]:
    """Metrics whose numbers are means over random tokens of the seed."""
    names = report.input.get("not_on_texts")
    return [str(name) for name in names] if isinstance(names, list | tuple) else []


def pair_rows_with_differences(old: Row | None, new: Row | None, order: Order | None) -> RowPair:
    """Pair two rows, with differences where both are means over the same texts or seeds."""
    if order is None or old is None or new is None or not old.each:
        return RowPair(old, new)
    if not len(old.each) == len(new.each) == len(order):
        return RowPair(old, new)
    before = map(old.each.__getitem__, order)
    return RowPair(old, new, tuple(map(operator.sub, new.each, before)))


def match_sample_order(old: Report, new: Report) -> Order | None:
    """Match the texts or seeds of two reports; None where they are not the same."""
    before, after = list_sample_names(old), list_sample_names(new)
    if not before or before == after:
        return range(len(after)) if before else None
    if len(set(before)) < len(before) or sorted(before) != sorted(after):
        return None
    return [before.index(one) for one in after]


def list_sample_names(report: Report) -> list[str]:
    """The samples of a row's mean: texts, by the model's input, else seeds."""
    texts = report.input.get("texts")
    if not texts:
        return [str(seed) for seed in report.seeds]
    if not isinstance(texts, list | tuple) or not all(isinstance(text, dict) for text in texts):
        return []
    hashes = [str(text.get("sha256") or "") for text in texts]
    return [] if "" in hashes else hashes


def combine_row_pairs(
    pairs: Sequence[RowPair], combine: Callable[[Sequence[float]], float], name: str
) -> RowPair:
    """Combine several pairs into one, also text by text where all values are available."""
    old, new = (
        aggregate_rows_into_one([row for row in rows if row is not None], combine, name)
        for rows in ([pair.old for pair in pairs], [pair.new for pair in pairs])
    )
    same = all(pair.differences for pair in pairs) and old.each and new.each
    if not same:
        return RowPair(old, new)
    steps = [new_values_in_old_order(pair) for pair in pairs]
    before = [combine(values) for values in zip(*steps, strict=True)]
    differences = tuple(n - o for n, o in zip(new.each, before, strict=True))
    return RowPair(old, new, differences)


def new_values_in_old_order(pair: RowPair) -> tuple[float, ...]:
    """The old numbers in the order of the new report's texts."""
    assert pair.new is not None
    return tuple(n - d for n, d in zip(pair.new.each, pair.differences, strict=True))


def aggregate_rows_into_one(
    rows: Sequence[Row], combine: Callable[[Sequence[float]], float], name: str
) -> Row:
    """A row of several rows; its spread is that of the combined numbers of each text."""
    values = [row.value for row in rows if row.value is not None]
    lengths = {len(row.each) for row in rows}
    each: tuple[float, ...] = ()
    if len(lengths) == 1 and 0 not in lengths:
        each = tuple(combine(found) for found in zip(*(row.each for row in rows), strict=True))
    deviation = standard_deviation(each, mean(each)) if each else None
    first = replace(rows[0], variant=None, layer=None, head=None, keys={})
    return replace(
        first, metric=name, value=combine(values), spread=deviation, n=len(each) or 1, each=each
    )


def index_rows_by_axis_values(rows: Iterable[Row]) -> Iterator[tuple[Place, Row]]:
    """Key rows by metric and coordinates; duplicates are numbered in their order."""
    seen: dict[Place, int] = {}
    for row in rows:
        place = (row.metric, row.unit, *sorted(row.coordinates.items()))
        count = seen.get(place, 0)
        seen[place] = count + 1
        yield (*place, count), row
