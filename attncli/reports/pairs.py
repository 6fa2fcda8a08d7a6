"""The rows of two reports side by side, and how far they lie apart against their own noise."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attncli.records import Report, Row

Place = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """One number in two reports; `None` where a report does not have it."""

    old: Row | None
    new: Row | None

    @property
    def row(self) -> Row:
        """Where the pair stands."""
        row = self.new or self.old
        assert row is not None
        return row

    @property
    def change(self) -> float | None:
        """new - old, where both are numbers."""
        if self.old is None or self.new is None:
            return None
        if self.old.value is None or self.new.value is None:
            return None
        return self.new.value - self.old.value

    @property
    def noise(self) -> float | None:
        """√(s_old² + s_new²): the standard deviation of the difference of one draw from each."""
        if self.old is None or self.new is None:
            return None
        if self.old.spread is None or self.new.spread is None:
            return None
        return math.hypot(self.old.spread, self.new.spread)

    @property
    def in_spreads(self) -> float | None:
        """The change over its noise; infinite where neither side varies and they differ."""
        if self.change is None or self.noise is None:
            return None
        if self.noise == 0.0:
            return math.copysign(math.inf, self.change) if self.change else 0.0
        return self.change / self.noise


def side_by_side(old: Report, new: Report) -> list[Pair]:
    """Every row of either report once: in the order of the new one, then what only the old one has."""
    before, after = dict(placed(old.rows)), dict(placed(new.rows))
    return [Pair(before.get(place), after.get(place)) for place in {**after, **before}]


def placed(rows: Iterable[Row]) -> Iterator[tuple[Place, Row]]:
    """Rows by what they measure and where; rows that share it all are told apart by their order."""
    seen: Counter[Place] = Counter()
    for row in rows:
        place = (row.metric, row.unit, *sorted(row.coordinates.items()))
        yield (*place, seen[place]), row
        seen[place] += 1
