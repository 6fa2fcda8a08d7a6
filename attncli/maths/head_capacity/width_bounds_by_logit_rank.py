"""Rows with keys of their own need width where logits are limited: a matrix near the identity has a high rank.

m rows a and disjoint groups of keys C_a, each in the support of its own row alone. With c_ab = q_a · (mean key of C_b) and
x_ab = c_ab - c_aa every module within the tolerances has, for b ≠ a,

    -2B ≤ x_ab ≤ -h        and        Σ_b ω e^(x_ab) ≤ s        (ω: the smallest group; s: from the total variation, by Jensen)

A polynomial f of degree e with f(0) = 1 that is small below -u makes f(x_ab) a matrix with ones on its diagonal and little
beside it: its rank is at least m / (1 + S) with S ≥ Σ_b f(x_ab)² of every row, and at most the number of monomials,

    C(d + e, e) ≥ m / (1 + S),        S = (m - 1) ε² + (s / ω) · max of f(x)² e^(-x) over -u … -h,        ε = max |f| below -u

with f Chebyshev's polynomial on -2B … -u. After Alon, Perturbed identity matrices have high rank (2009); the use is ours.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    Array,
    Index,
    WidthOneConstraints,
)

DEGREES = range(1, 9)
CUTS = 24
"""Values of u that are tried."""
FURTHEST = 40.0
"""Beyond h: e^(-x) is too large for any more to be had."""
CELLS = 200
"""In which the largest f(x)² e^(-x) is looked for: each is bounded by its two ends."""
HALVINGS = 50
HIGHEST = 1e6
"""Logits above it are not looked at."""


class RowsWithOwnKeys(NamedTuple):
    """Bounds from rows that each have keys of their own."""

    rows: tuple[int, ...]
    group: int
    """ω: keys in the smallest group."""
    gap: float
    """h: how far each group's mean logit lies at least below the row's own."""
    leak: float
    """s: what Σ_b ω e^x is at most; infinite where the total variation says nothing."""

    def bound_width_from_below(self, budget: float) -> int:
        """A lower bound on the width of modules with logits up to the budget."""
        return max((width for width in self.iter_width_lower_bounds(budget)), default=1)

    def iter_width_lower_bounds(self, budget: float) -> Iterator[int]:
        """Iterate over the bounds for each degree and cut; infinite where the gap alone exceeds the budget."""
        if len(self.rows) < 2 or self.gap >= 2.0 * budget:
            return
        for degree in DEGREES:
            rank = max(
                self.bound_logit_matrix_rank(degree, cut, budget)
                for cut in self.list_candidate_logit_thresholds(budget)
            )
            yield find_least_width_for_rank(rank * (1.0 - 1e-9), degree)

    def list_candidate_logit_thresholds(self, budget: float) -> Array:
        """u from h on: the total variation leaves few keys above it."""
        last = self.gap
        if math.isfinite(self.leak):
            last = min(0.5 * (self.gap + 2.0 * budget), self.gap + FURTHEST)
        return np.linspace(self.gap, last, CUTS if last > self.gap else 1)

    def bound_logit_matrix_rank(self, degree: int, cut: float, budget: float) -> float:
        """m / (1 + S)."""
        middle, half = budget + 0.5 * cut, budget - 0.5 * cut
        at_zero = evaluate_chebyshev_polynomial(degree, middle / half)
        small = float(1.0 / at_zero) ** 2
        above = 0.0
        if cut > self.gap:
            x = np.linspace(-cut, -self.gap, CELLS + 1)
            high = (evaluate_chebyshev_polynomial(degree, (x[1:] + middle) / half) / at_zero) ** 2
            above = self.leak / self.group * float((high * np.exp(-x[:-1])).max())
        count = len(self.rows)
        return count / (1.0 + (count - 1) * small + above)

    def bound_largest_logit_from_below(self, d: int) -> float:
        """A lower bound on the logits of modules of this width."""
        low, high = 0.5 * self.gap, HIGHEST
        if len(self.rows) < 2 or low <= 0.0 or self.bound_width_from_below(1.0001 * low) <= d:
            return 0.0
        low *= 1.0001
        for _ in range(HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.bound_width_from_below(middle) > d else (low, middle)
            if high < 1.0001 * low:
                break
        return low


def evaluate_chebyshev_polynomial(degree: int, at: Array | float) -> Array:
    """T_degree."""
    found: Array = np.asarray(chebyshev.chebval(at, [0.0] * degree + [1.0]), dtype=np.float64)
    return found


def find_least_width_for_rank(rank: float, degree: int) -> int:
    """The least d with C(d + e, e) ≥ rank."""
    d = 1
    while math.comb(d + degree, degree) < rank:
        d += 1
    return d


def find_row_families_with_own_keys(
    constraints: WidthOneConstraints, variation: float
) -> list[RowsWithOwnKeys]:
    """Families of rows, chosen greedily: rows that share no key at all, and rows that have only some keys to themselves.

    Under a mask the rows from some place on and the keys up to it, which all of them see.
    """
    length = constraints.target.shape[0]
    places = (
        [length // 4, length // 2, 3 * length // 4] if constraints.has_masked_keys else [length]
    )
    found = [
        measure_logit_gaps_of_own_keys(constraints, variation, chosen, place)
        for place in places
        for disjoint in (True, False)
        if len(chosen := choose_rows_with_own_keys(constraints, place, disjoint)) > 1
    ]
    return [each for each in found if each is not None]


def choose_rows_with_own_keys(
    constraints: WidthOneConstraints, place: int, disjoint: bool
) -> dict[int, list[int]]:
    """Choose rows, those with few keys first, and for each the keys that no other chosen row has."""
    count, owner = np.zeros(place, int), np.zeros(place, int)
    own: dict[int, int] = {}
    keys_of = {
        int(row): list_row_keys_before_position(constraints, int(row), place)
        for row in constraints.rows
    }
    wide = {
        row: keys
        for row, keys in keys_of.items()
        if len(keys) and constraints.visible_counts[row] >= place
    }
    for row in sorted(wide, key=lambda each: (len(wide[each]), each)):
        keys = wide[row]
        lost = [int(owner[key]) for key in keys if count[key] == 1]
        free = int((count[keys] == 0).sum())
        if not free or (disjoint and free < len(keys)):
            continue
        if any(own[other] <= lost.count(other) for other in set(lost)):
            continue
        for other in lost:
            own[other] -= 1
        own[row] = free
        count[keys] += 1
        owner[keys] = row
    return {row: [int(key) for key in wide[row] if count[key] == 1] for row in own}


def list_row_keys_before_position(constraints: WidthOneConstraints, row: int, place: int) -> Index:
    keys = constraints.list_support_keys_of_row(row)
    found: Index = keys[keys < place]
    return found


def measure_logit_gaps_of_own_keys(
    constraints: WidthOneConstraints, variation: float, chosen: dict[int, list[int]], place: int
) -> RowsWithOwnKeys | None:
    """h, s and ω of all rows: the worst of each."""
    group = min(map(len, chosen.values()))
    gap, leak = math.inf, 0.0
    for row, keys in chosen.items():
        part = constraints.slice_entries_of_row(row)
        at = np.searchsorted(constraints.list_support_keys_of_row(row), keys)
        weights = constraints.target.data[part][at]
        gap = min(gap, -float(constraints.off[part][at].mean()))
        positive = weights - variation
        leak = max(
            leak,
            variation / math.exp(np.log(positive).mean()) if positive.min() > 0.0 else math.inf,
        )
    gap = max(gap, math.log(group / leak)) if math.isfinite(leak) else gap
    return RowsWithOwnKeys(tuple(chosen), group, gap, leak) if gap > 0.0 else None
