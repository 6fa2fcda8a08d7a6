"""Unequal weights or a mask: a linear programme in key positions and row slopes, with violated conditions added as
needed.

maximise t  with  t ≤ g_i ≤ 1  and  s_i (k_x - k_y) ≤ U_i(x, y) g_i. Written out, that is a condition for every pair of keys
of every row. Those that a solution breaks are added until none is broken; what the dual solution says of the conditions
that are held then is a proof where t = 0.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array

from attncli.maths.head_capacity.head_width_one.infeasibility_proof import (
    NOTHING,
    ProofStep,
    Weighed,
    round_proof_weights_to_integers,
)
from attncli.maths.head_capacity.head_width_one.logit_constraints import Array, WidthOneConstraints
from attncli.maths.head_capacity.head_width_one.query_signs import PAIRWISE_LIMIT

ROUNDS = 60
BROKEN = 1e-7
SMALLEST = 1e-8
"""Of t: below, the programme cannot tell it from 0."""
RELAXED = 1e-7
"""Bounds are relaxed by this much, so that a proof from the dual solution has a margin for rounding."""


class KeyOrderCondition(NamedTuple):
    """s (k_x - k_y) ≤ bound · g; row is a number within the rows that ask."""

    number: int
    x: int | None
    y: int | None
    bound: float


class ProgrammeUnits(NamedTuple):
    """The unknowns, and their units in the solver."""

    unknown: Array
    """The size of every unknown."""
    reach: Array
    """The size of the g of every row that asks."""
    sums: Array | None = None
    """[key, unknown]: each key as a sum of unknowns, the last of which is how far all of them lie above the ground; None:
    the keys themselves are unknown."""


class WidthOneSolution(NamedTuple):
    """The solution of a programme."""

    keys: Array
    reach: Array
    """g of every row that asks."""
    room: float
    """t, in units of the g: 0 where there is no solution."""
    steps: tuple[ProofStep, ...]
    """Where t is 0: the contradiction."""
    finished: bool
    """Whether no condition is broken."""
    shift: float = 0.0
    """How far above the ground the keys lie as a whole."""


class WidthOneProgramme:
    """A linear programme that keeps its conditions from one budget to the next."""

    def __init__(
        self,
        constraints: WidthOneConstraints,
        sign: NDArray[np.int64],
        units: ProgrammeUnits | None = None,
    ) -> None:
        self.constraints = constraints
        self.units = units or ProgrammeUnits(
            np.ones(constraints.target.shape[0]), np.ones(len(constraints.rows))
        )
        self.sign = sign[constraints.rows]
        self.conditions: dict[KeyOrderCondition, None] = {}
        self.rank = order_keys_on_line(constraints, self.sign)

    def solve_within_logit_budget(
        self, budget: float | None, rounds: int = ROUNDS
    ) -> WidthOneSolution:
        """Solve to within rounding, or as far as the rounds allow."""
        self.conditions = {each: None for each in self.conditions if None not in (each.x, each.y)}
        self.conditions |= dict.fromkeys(self.iter_initial_key_order_conditions(budget))
        placed = self.solve_with_current_conditions()
        for _ in range(rounds):
            if placed.room < SMALLEST:
                return placed
            fresh = [
                each
                for number in range(len(self.constraints.rows))
                for each in self.iter_violated_key_order_conditions(number, placed, budget)
                if each not in self.conditions
            ]
            if not fresh:
                return placed._replace(finished=True)
            self.conditions |= dict.fromkeys(fresh)
            placed = self.solve_with_current_conditions()
        return placed

    def iter_initial_key_order_conditions(
        self, budget: float | None
    ) -> Iterator[KeyOrderCondition]:
        """Iterate over the conditions that would be active if keys were placed in the required order."""
        if self.rank is not None:
            for number in range(len(self.constraints.rows)):
                for condition, _ in self.find_extreme_keys_of_row(number, self.rank, 1e-9, budget):
                    yield condition

    def iter_violated_key_order_conditions(
        self, number: int, placed: WidthOneSolution, budget: float | None
    ) -> Iterator[KeyOrderCondition]:
        """Iterate over conditions of one row that the present keys violate."""
        reach = float(placed.reach[number])
        for condition, bound in self.find_extreme_keys_of_row(number, placed.keys, reach, budget):
            high, low = (
                -placed.shift if key is None else placed.keys[key]
                for key in (condition.x, condition.y)
            )
            if self.sign[number] * (high - low) > (bound + BROKEN * (1.0 + abs(bound))) * reach:
                yield condition

    def find_extreme_keys_of_row(
        self, number: int, places: Array, reach: float, budget: float | None
    ) -> Iterator[tuple[KeyOrderCondition, float]]:
        """The highest key off the support, the two farthest apart on it, and the largest logits; each with the bound that
        it was found by."""
        condition = partial(KeyOrderCondition, number)
        constraints, row = self.constraints, int(self.constraints.rows[number])
        part, keys = (
            constraints.slice_entries_of_row(row),
            constraints.list_support_keys_of_row(row),
        )
        logit = self.sign[number] * places[: constraints.visible_counts[row]]
        on = logit[keys]
        several = constraints.ceilings if len(keys) > 1 else ()
        ceilings = [(high[part], low[part]) for high, low in several]
        for high, low in ceilings:
            x, y = np.argmax(on - reach * high), np.argmin(on - reach * low)
            if x != y and low[y] > -np.inf:
                least = float(min(above[x] - below[y] for above, below in ceilings))
                yield condition(int(keys[x]), int(keys[y]), least), float(high[x] - low[y])
        if len(keys) < len(logit):
            others = logit.copy()
            others[keys] = -np.inf
            off = constraints.off[part]
            x, y = others.argmax(), (on + reach * off).argmin()
            yield condition(int(x), int(keys[y]), float(off[y])), float(off[y])
        if budget is not None:
            yield condition(int(logit.argmax()), None, budget), budget
            yield condition(None, int(logit.argmin()), budget), budget

    def solve_with_current_conditions(self) -> WidthOneSolution:
        """Solve with the present conditions."""
        units = self.units
        places, count = len(units.unknown), len(self.constraints.rows)
        cost = np.zeros(places + count + 1)
        cost[-1] = -1.0
        bounds = [(None, None)] * places + [(0.0, 1.0)] * count + [(0.0, 1.0)]
        matrix, sizes = self.build_scaled_condition_matrix()
        result = linprog(
            cost,
            matrix,
            np.zeros(len(self.conditions) + count),
            bounds=bounds,
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if result.x is None:
            return WidthOneSolution(
                np.zeros(self.constraints.target.shape[0]), np.ones(count), 0.0, (), False
            )
        found, reach = result.x[:places] * units.unknown, result.x[places:-1] * units.reach
        keys, shift = self.convert_unknowns_to_key_positions(found)
        room = float(result.x[-1])
        duals = -result.ineqlin.marginals[: len(self.conditions)]
        steps = self.build_proof_steps_from_duals(duals, sizes) if room < SMALLEST else ()
        return WidthOneSolution(keys, np.maximum(reach, 1e-300), room, steps, False, shift)

    def convert_unknowns_to_key_positions(self, unknown: Array) -> tuple[Array, float]:
        """Of the keys, and how far above the ground they lie as a whole."""
        if self.units.sums is None:
            return unknown, 0.0
        return self.units.sums[:, :-1] @ unknown[:-1], float(unknown[-1])

    def list_key_difference_coefficients(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
        """k_x - k_y of every condition: which condition, which unknown, and how many units of it."""
        unknown, sums = self.units.unknown, self.units.sums
        pairs = [
            [-1 if key is None else key for key in (each.x, each.y)] for each in self.conditions
        ]
        x, y = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        if sums is None:
            place, key = np.tile(np.arange(len(x)), 2), np.concatenate([x, y])
            steps = np.repeat([1.0, -1.0], len(x)) * unknown[key]
            return place[key >= 0], key[key >= 0], steps[key >= 0]
        grounded = np.vstack([sums, np.zeros(len(unknown))])
        total = grounded[x] - grounded[y]
        place, at = np.nonzero(total)
        return place, at, total[place, at] * unknown[at]

    def build_scaled_condition_matrix(self) -> tuple[csr_array, Array]:
        """Rows: the conditions, each divided by its largest coefficient in the solver's units, then t ≤ g; and these
        divisors."""
        places, count, total = (
            len(self.units.unknown),
            len(self.constraints.rows),
            len(self.conditions),
        )
        number = np.array([each.number for each in self.conditions], dtype=np.intp)
        bound = np.array([each.bound for each in self.conditions])
        place, at, steps = self.list_key_difference_coefficients()
        largest = np.zeros(total)
        np.maximum.at(largest, place, np.abs(steps))
        sizes = np.maximum(np.abs(bound), largest / self.units.reach[number])
        factor = self.sign[number] / sizes / self.units.reach[number]
        relaxed = bound + RELAXED * np.abs(bound)
        own = np.arange(count)
        row = np.concatenate([place, np.arange(total), total + own, total + own])
        column = np.concatenate([at, places + number, places + own, np.full(count, places + count)])
        value = np.concatenate(
            [steps * factor[place], -relaxed / sizes, np.full(count, -1.0), np.ones(count)]
        )
        shape = (total + count, places + count + 1)
        return csr_array(coo_array((value, (row, column)), shape=shape)), sizes

    def build_proof_steps_from_duals(self, duals: Array, sizes: Array) -> tuple[ProofStep, ...]:
        least = NOTHING * max(float(duals.max(initial=0.0)), 0.0)
        weights = dict.fromkeys(
            self.iter_redundant_key_order_conditions() if self.units.sums is not None else (), 0.0
        )
        for each, weight, size in zip(self.conditions, duals, sizes, strict=True):
            own = float(weight) / float(size) / float(self.units.reach[each.number])
            weights[each] = own if weight > least else 0.0
        weighed: list[Weighed] = [
            (
                int(self.constraints.rows[each.number]),
                int(self.sign[each.number]),
                each.x,
                each.y,
                each.bound,
                weight,
            )
            for each, weight in weights.items()
        ]
        return round_proof_weights_to_integers(weighed)

    def iter_redundant_key_order_conditions(self) -> Iterator[KeyOrderCondition]:
        """Repeat the strict-order conditions for every key of the row's support: where units differ widely, some
        multipliers are too small for the solver."""
        for each in list(self.conditions):
            if each.x is not None and each.y is not None and each.bound < 0.0:
                row = int(self.constraints.rows[each.number])
                for y in self.constraints.list_support_keys_of_row(row).tolist():
                    bound = self.constraints.bound_logit_difference(row, each.x, y)
                    yield KeyOrderCondition(each.number, each.x, y, bound)


def order_keys_on_line(constraints: WidthOneConstraints, sign: NDArray[np.int64]) -> Array | None:
    """Sort keys so that every row's strict order holds; None where the orders are cyclic."""
    above = find_required_key_orders(constraints, sign)
    length = len(above)
    waiting = above.sum(axis=0)
    rank, free = np.full(length, -1.0), np.flatnonzero(waiting == 0).tolist()
    for place in range(length):
        if not free:
            return None
        key = free.pop()
        rank[key] = length - place
        waiting -= above[key]
        free += np.flatnonzero(above[key] & (waiting == 0)).tolist()
    return rank


def find_required_key_orders(
    constraints: WidthOneConstraints, sign: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """[x, y]: whether some row requires x above y on the line."""
    length = constraints.target.shape[0]
    above = np.zeros((length, length), dtype=bool)
    for number, row in enumerate(constraints.rows):
        count, part, keys = (
            int(constraints.visible_counts[row]),
            constraints.slice_entries_of_row(row),
            constraints.list_support_keys_of_row(row),
        )
        order = constraints.find_strict_key_orders_of_row(row) if length <= PAIRWISE_LIMIT else None
        if order is None:
            off = np.ones(count, dtype=bool)
            off[keys] = False
            place = np.ix_(keys[constraints.off[part] < 0.0], np.flatnonzero(off))
            if sign[number] > 0:
                above[place] = True
            else:
                above.T[place] = True
        else:
            above[:count, :count] |= order if sign[number] > 0 else order.T
    return above
