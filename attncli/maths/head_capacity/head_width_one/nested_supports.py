"""Equal weights and no mask: the smallest gaps between the keys, in closed form.

Given the signs, every support is an upper set of one order of the keys, or what is left of one; keys that all rows treat
alike share a place. A row that cuts the line at gap t asks, with r its spread, b its drop, R the sum of all gaps:

    x_t ≥ (b / r) · (gaps within its support)        and, with logits up to B,        x_t ≥ (b / 2B) · R

since its g lies between both sides. The least x with x_t ≥ b and the first condition is the smallest in every gap at
once, so B = R / 2 is the least logit scale there is. Our own derivation.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.maths.head_capacity.head_width_one.infeasibility_proof import ProofStep
from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    Array,
    Index,
    WidthOneConstraints,
)
from attncli.maths.head_capacity.head_width_one.query_signs import QuerySigns

SWEEPS = 500
FAR = 1e300
CLOSE = 1e-13
DIGITS = 64
"""Binary ones that the smallest amount keeps."""


@dataclass(frozen=True)
class NestedOrder:
    """Keys in order, and the rows whose supports are cut off between them."""

    cell: Index
    """The place of every key, 0 … T."""
    rows: Index
    sign: NDArray[np.int64]
    """Of each of `rows`."""
    cut: Index
    """The gap 0 … T - 1 at which each of `rows` cuts."""
    drop: Array
    """b of each of `rows`."""
    spread: Array
    """r of each of `rows`."""

    @property
    def row_slopes(self) -> Array:
        """b / r of each of `rows`."""
        return self.drop / self.spread

    @property
    def key_gap_count(self) -> int:
        return int(self.cell.max())


class SmallestKeyGaps(NamedTuple):
    """The smallest gaps between neighbouring keys, if there is a solution."""

    gaps: Array
    """Infinite where they leave float range."""
    circular: bool
    """Whether they do not settle because two gaps each want to be the larger."""
    logits: float
    """R / 2: the least logit scale."""


def find_nested_order(constraints: WidthOneConstraints, signs: QuerySigns) -> NestedOrder | None:
    """Order the keys so that every support is an interval at one end; None where supports are not nested."""
    length, rows = constraints.target.shape[0], constraints.rows
    sign = signs.sign[rows]
    upper = (constraints.target.toarray()[rows] > 0.0) == (sign > 0)[:, None]
    level = upper.sum(axis=0)
    cell = np.unique(level, return_inverse=True)[1]
    size = np.bincount(cell)
    start = np.cumsum(size) - size
    lower = length - upper.sum(axis=1)
    place = np.searchsorted(start, lower)
    inside = place < len(start)
    if not inside.all() or (start[place] != lower).any():
        return None
    if ((cell[None, :] >= place[:, None]) != upper).any():
        return None
    starts = constraints.target.indptr[rows]
    drop = -constraints.off[starts]
    spread = np.min([high[starts] - low[starts] for high, low in constraints.ceilings], axis=0)
    return NestedOrder(cell, rows, sign, place - 1, drop, spread)


def find_smallest_key_gaps(chain: NestedOrder) -> SmallestKeyGaps:
    """The smallest x with x_t ≥ b and x_t ≥ (b / r) · (gaps within the support), by sweeps from both ends."""
    need, rising, falling = (np.zeros(chain.key_gap_count) for _ in range(3))
    np.maximum.at(need, chain.cut, chain.drop)
    up = chain.sign > 0
    np.maximum.at(rising, chain.cut[up], chain.row_slopes[up])
    np.maximum.at(falling, chain.cut[~up], chain.row_slopes[~up])
    gaps, settled = need.copy(), False
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(SWEEPS):
            before = gaps.copy()
            widen_key_gaps_as_required(gaps[::-1], rising[::-1])
            widen_key_gaps_as_required(gaps, falling)
            settled = bool((gaps <= before * (1.0 + CLOSE)).all())
            if settled or not gaps.max() < FAR:
                break
    return SmallestKeyGaps(
        gaps, not settled and are_supports_in_conflict(rising, falling), 0.5 * float(gaps.sum())
    )


def widen_key_gaps_as_required(gaps: Array, steep: Array) -> None:
    """Raise gaps in place, in one sweep: each to at least `steep` times the sum of all before it."""
    total = 0.0
    for place in range(len(gaps)):
        if steep[place] > 0.0 and total > 0.0:
            gaps[place] = max(gaps[place], steep[place] * total)
        total += gaps[place]


def are_supports_in_conflict(rising: Array, falling: Array) -> bool:
    """Whether each of two sweeps needs the other: a support that ends upwards contains a gap of one that ends
    downwards, and vice versa."""
    if not (rising.any() and falling.any()):
        return False
    last_falling = len(falling) - 1 - int(np.argmax(falling[::-1] > 0.0))
    return last_falling > int(np.argmax(rising > 0.0))


def compute_key_positions_from_gaps(
    chain: NestedOrder, least: SmallestKeyGaps
) -> tuple[Array, Array]:
    """The position of every key, and the largest g of every row; keys are measured from where gaps are small, to keep
    digits."""
    origin = int(np.argmin(least.gaps))
    up = np.concatenate([[0.0], np.cumsum(least.gaps[origin:])])
    down = -np.cumsum(least.gaps[:origin][::-1])[::-1]
    return np.concatenate([down, up])[chain.cell], least.gaps[chain.cut] / chain.drop


def prove_key_gaps_exceed_budget(
    chain: NestedOrder, least: SmallestKeyGaps, budget: float | None
) -> tuple[ProofStep, ...]:
    """Multiples of conditions that no keys can satisfy at this budget (None: at any budget)."""
    with np.errstate(over="ignore", invalid="ignore"):
        policy = choose_steepest_row_per_key_gap(chain, least)
    if budget is None:
        return convert_gap_weights_to_proof(
            chain, policy, solve_proof_weights_of_cyclic_gaps(chain, policy), None
        )
    return convert_gap_weights_to_proof(
        chain, policy, solve_proof_weights_of_key_gaps(chain, policy, least, budget), budget
    )


class GapRowChoice(NamedTuple):
    """For every gap, the row whose condition determines its size."""

    row: Index
    """Number within the chain's rows."""
    steep: Array
    """b / r where the row's own support does; 0 where b alone does."""
    budget: Array
    """b where b alone does, else 0."""


def choose_steepest_row_per_key_gap(chain: NestedOrder, least: SmallestKeyGaps) -> GapRowChoice:
    total = np.concatenate([[0.0], np.cumsum(least.gaps)])
    above, below = np.cumsum(least.gaps[::-1])[::-1] - least.gaps, total[:-1]
    side = np.where(chain.sign > 0, above[chain.cut], below[chain.cut])
    needed_logits = np.maximum(chain.drop, np.where(side > 0.0, chain.row_slopes * side, 0.0))
    order = np.lexsort((needed_logits, chain.cut))
    last = np.searchsorted(chain.cut[order], np.arange(chain.key_gap_count), side="right") - 1
    row = order[last]
    by_side = np.where(side[row] > 0.0, chain.row_slopes[row] * side[row], 0.0) > chain.drop[row]
    return GapRowChoice(
        row, np.where(by_side, chain.row_slopes[row], 0.0), np.where(by_side, 0.0, chain.drop[row])
    )


def find_key_gaps_inside_supports(chain: NestedOrder, policy: GapRowChoice) -> NDArray[np.bool_]:
    """[gap, gap]: whether the second lies within the support of the first's row."""
    gap = np.arange(chain.key_gap_count)
    up = chain.sign[policy.row] > 0
    found: NDArray[np.bool_] = np.where(
        up[:, None], gap[None, :] > gap[:, None], gap[None, :] < gap[:, None]
    )
    return found


def solve_proof_weights_of_key_gaps(
    chain: NestedOrder, policy: GapRowChoice, least: SmallestKeyGaps, budget: float
) -> Array:
    """Solve λ y = F^T y + (b · y / 2B) 1, λ > 1, on gaps whose sum already exceeds the budget.

    y^T x ≥ y^T (F x + (b / 2B) R) = λ y^T x is what no x > 0 can do. F leads one way, so λ is found by halving.
    """
    chosen = select_fewest_key_gaps(least, budget)
    share = np.where(chosen, policy.budget, 0.0) / (2.0 * budget)
    steep = np.where(chosen, policy.steep, 0.0)
    up = chain.sign[policy.row] > 0
    low, high = 1.0, 1e6
    for _ in range(80):
        middle = float(np.sqrt(low * high))
        total = float(share @ solve_nested_key_gap_system(steep, up, middle))
        low, high = (middle, high) if total > 1.0 else (low, middle)
    return np.where(chosen, solve_nested_key_gap_system(steep, up, low), 0.0)


def select_fewest_key_gaps(least: SmallestKeyGaps, budget: float) -> NDArray[np.bool_]:
    """Select as few gaps, smallest first, as sum to more than the budget."""
    sizes = np.where(least.gaps < FAR, least.gaps, np.inf)
    order = np.argsort(sizes, kind="stable")
    enough = int(np.searchsorted(np.cumsum(sizes[order]), 2.0 * budget)) + 1
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[order[:enough]] = True
    return chosen & np.isfinite(sizes)


def solve_nested_key_gap_system(steep: Array, up: NDArray[np.bool_], growth: float) -> Array:
    """(λ - F^T)^-1 1, by one pass upwards and one downwards."""
    weights = np.zeros(len(steep))
    from_below = from_above = 0.0
    with np.errstate(over="ignore"):
        for gap in range(len(steep)):
            weights[gap] = (1.0 + from_below) / growth
            from_below += steep[gap] * weights[gap] if up[gap] else 0.0
        for gap in reversed(range(len(steep))):
            weights[gap] += from_above / growth
            from_above += 0.0 if up[gap] else steep[gap] * weights[gap]
    return weights


def solve_proof_weights_of_cyclic_gaps(chain: NestedOrder, policy: GapRowChoice) -> Array:
    """Left eigenvector of gaps that raise one another without end; of 1 + F, which has the same vector and no
    oscillation."""
    flow = find_key_gaps_inside_supports(chain, policy) * policy.steep[:, None]
    weights = np.ones(chain.key_gap_count)
    for _ in range(300):
        weights = weights + flow.T @ weights
        weights /= max(float(weights.max()), 1e-300)
        weights[weights < 1e-12] = 0.0
    return weights


def convert_gap_weights_to_proof(
    chain: NestedOrder, policy: GapRowChoice, weights: Array, budget: float | None
) -> tuple[ProofStep, ...]:
    """Write the contradiction as proof steps: conditions of rows, and gaps as often as rows cross them."""
    first = np.unique(chain.cell, return_index=True)[1]
    share = policy.steep if budget is None else policy.steep + policy.budget / (2.0 * budget)
    whole = scale_proof_weights_to_integers(weights * share)
    chosen = np.flatnonzero(weights > 0.0)
    span = (int(chosen.min(initial=0)), int(chosen.max(initial=0)) + 1)
    made: list[ProofStep] = []
    crossing = [0] * (chain.key_gap_count + 1)

    def append_proof_step(
        gap: int, x: int | None, y: int | None, bound: float, weight: int
    ) -> None:
        number = policy.row[gap]
        keys = [None if place is None else int(first[place]) for place in (x, y)]
        made.append(
            ProofStep(
                int(chain.rows[number]), int(chain.sign[number]), keys[0], keys[1], bound, weight
            )
        )

    for gap in range(chain.key_gap_count):
        number, top, amount = policy.row[gap], chain.key_gap_count, whole[gap]
        if not amount:
            continue
        up, steep = chain.sign[number] > 0, policy.steep[gap]
        low, high = span if steep == 0.0 else (gap + 1, top) if up else (0, gap)
        x, y = (high, low) if up else (low, high)
        if steep > 0.0:
            append_proof_step(gap, x, y, float(chain.spread[number]), amount)
        elif budget is not None:
            append_proof_step(gap, x, None, budget, amount)
            append_proof_step(gap, None, y, budget, amount)
        crossing[low] += amount
        crossing[high] -= amount
    for gap, amount in enumerate(accumulate(crossing[:-1])):
        if amount:
            number = policy.row[gap]
            x, y = (gap, gap + 1) if chain.sign[number] > 0 else (gap + 1, gap)
            append_proof_step(gap, x, y, -float(chain.drop[number]), amount)
    return tuple(made)


def scale_proof_weights_to_integers(amounts: Array) -> list[int]:
    """Scale to whole numbers so that even the smallest keeps its digits."""
    unit = Fraction(2**DIGITS) / Fraction(float(amounts[amounts > 0.0].min(initial=1e300)))
    return [int(Fraction(float(amount)) * unit) for amount in amounts]
