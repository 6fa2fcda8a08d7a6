"""Rows that each need a far larger logit than the row before: a programme whose units grow with them.

A causal window asks its newest keys to be close together and, a row later, far apart: steepnesses grow by a factor from
row to row, and soon leave what a solver can tell from 0. Here rows are added one at a time; every key and every steepness
is counted in units of what the rows before found it to be, so that the solver sees numbers near 1 at any height.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.maths.head_capacity.head_width_one.key_position_linear_programme import (
    SMALLEST,
    ProgrammeUnits,
    WidthOneProgramme,
    WidthOneSolution,
    order_keys_on_line,
)
from attncli.maths.head_capacity.head_width_one.logit_constraints import Array, WidthOneConstraints

FIRST = 3
"""Rows to begin with."""
TRIES = 12
"""Budgets and units that are tried for one more row."""
FURTHER = 6.0
"""A budget is raised by the last row's growth, and by this where that was not enough."""
LOWER = 0.1
CLOSE = 20.0
TIED = 1e-3
"""Of the least steepness: what a gap that may be 0 is counted in."""
HIGHEST = 1e290
"""Logits above it leave float64."""
MOST_ROWS = 600


class GrowingLogits(NamedTuple):
    """The rows added so far, and their solution."""

    programme: WidthOneProgramme
    solution: WidthOneSolution
    """Of all rows, or where it cannot be had, the contradiction of the first of them."""
    budget: float
    """That the places keep, or that the contradiction is of."""


def solve_rows_of_growing_logits(
    constraints: WidthOneConstraints, sign: NDArray[np.int64], budget: float
) -> GrowingLogits | None:
    """Find keys for all rows within the budget, or rows that contradict it; None where neither was found."""
    rank = order_keys_on_line(constraints, sign[constraints.rows])
    if rank is None or len(constraints.rows) > MOST_ROWS:
        return None
    order = np.argsort(rank)
    found: list[GrowingLogits] = []
    for count in range(min(FIRST, len(constraints.rows)), len(constraints.rows) + 1):
        few = constraints.select_constraints_of_rows(constraints.rows[:count])
        higher = add_row_to_growing_logits(few, sign, order, found[-2:], min(budget, HIGHEST))
        if higher is None or not is_linear_programme_solved(higher.solution):
            return higher
        found.append(higher)
    return found[-1]


def add_row_to_growing_logits(
    few: WidthOneConstraints,
    sign: NDArray[np.int64],
    order: NDArray[np.intp],
    before: list[GrowingLogits],
    ceiling: float,
) -> GrowingLogits | None:
    """Add a row: raise the budget until it fits, then lower the budget to near the smallest possible; units follow
    the solution."""
    programme = WidthOneProgramme(few, sign, choose_initial_programme_units(few, order, before))
    now = 1.0
    if before:
        programme.conditions = dict(before[-1].programme.conditions)
        now = before[-1].budget * (before[-1].budget / before[0].budget if before[1:] else FURTHER)
    best: GrowingLogits | None = None
    blind = 0.0
    for _ in range(TRIES):
        now = min(now, ceiling)
        placed = programme.solve_within_logit_budget(now)
        if is_linear_programme_solved(placed):
            best = GrowingLogits(programme, placed, now)
            programme.units = choose_programme_units_from_solution(few, order, placed)
        elif now >= ceiling:
            return GrowingLogits(programme, placed, now) if placed.steps else None
        else:
            blind = now
        if best is not None and best.budget <= CLOSE * blind:
            break
        if best is None:
            now *= FURTHER
        else:
            now = float(np.sqrt(best.budget * blind)) if blind else LOWER * best.budget
    return best


def is_linear_programme_solved(placed: WidthOneSolution) -> bool:
    return placed.room >= SMALLEST and placed.finished


def choose_programme_units_from_solution(
    few: WidthOneConstraints, order: NDArray[np.intp], placed: WidthOneSolution
) -> ProgrammeUnits:
    """Take gaps between neighbouring keys as units, in the sizes of the last solution, from the smallest gap
    outwards."""
    chosen = order[order < few.visible_counts[few.rows].max()]
    least = find_smallest_slope_per_key_gap(few, chosen, placed.reach)
    sizes = np.maximum(np.abs(np.diff(placed.keys[chosen])), TIED * least)
    return build_programme_units(few, chosen, sizes, placed.reach)


def find_smallest_slope_per_key_gap(
    few: WidthOneConstraints, chosen: NDArray[np.intp], reach: Array
) -> Array:
    """[gap]: the smallest g of the rows that see both of its keys."""
    later = np.maximum(chosen[1:], chosen[:-1])
    sees = later[None, :] < few.visible_counts[few.rows][:, None]
    found: Array = np.where(sees, reach[:, None], np.inf).min(axis=0)
    return found


def choose_initial_programme_units(
    few: WidthOneConstraints, order: NDArray[np.intp], before: list[GrowingLogits]
) -> ProgrammeUnits:
    """Units from the solution with one row less; new gaps continue at the rate of the last rows."""
    chosen = order[order < few.visible_counts[few.rows].max()]
    if not before:
        return build_programme_units(few, chosen, np.ones(len(chosen) - 1), np.ones(len(few.rows)))
    known = before[-1].solution
    step = float(known.reach[-1] / known.reach[-2])
    reach = np.append(known.reach, known.reach[-1] * step)
    seen = before[-1].programme.constraints
    new = chosen >= seen.visible_counts[seen.rows].max()
    gaps = np.maximum(
        np.abs(np.diff(known.keys[chosen])),
        TIED * find_smallest_slope_per_key_gap(few, chosen, reach),
    )
    gaps = np.where(new[1:] | new[:-1], reach[-1], gaps)
    return build_programme_units(few, chosen, gaps, reach)


def build_programme_units(
    few: WidthOneConstraints, chosen: NDArray[np.intp], sizes: Array, reach: Array
) -> ProgrammeUnits:
    """Write keys as sums of gaps from the key next to the smallest gap, and the distance of that key from 0."""
    count = len(sizes)
    origin = int(np.argmin(sizes)) if count else 0
    place = np.arange(count + 1)
    gap = np.arange(count)
    above = (gap[None, :] >= origin) & (gap[None, :] < place[:, None])
    below = (gap[None, :] < origin) & (gap[None, :] >= place[:, None])
    sums = np.zeros((few.target.shape[0], count + 1))
    sums[chosen, :count] = above.astype(float) - below
    sums[chosen, count] = 1.0
    return ProgrammeUnits(np.append(sizes, sizes.sum()), reach, sums)
