"""A contradiction as whole numbers: multiples of the conditions whose sum says 0 < 0.

Every step is a condition  s_i (k_x - k_y) ≤ U g_i  with U at least what the request allows. In the sum all keys cancel
exactly and every g_i > 0 has a factor below zero: 0 ≤ Σ factor_i g_i < 0. Whoever doubts it adds up the numbers.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import product
from typing import NamedTuple

from attncli.maths.head_capacity.head_width_one.logit_constraints import WidthOneConstraints
from attncli.maths.head_capacity.head_width_one.query_signs import (
    QuerySignConstraint,
    is_query_sign_constraint_valid,
)
from attncli.records import JsonObject

MOST_TREES = 16
"""Signs that links may leave open in one proof."""
ROUNDING = 1e-12
"""Logarithms are known to a few 10^-16 of themselves: a factor counts as negative below this share of what was added up."""


class ProofStep(NamedTuple):
    """`weight` times: sign · (k_x - k_y) ≤ bound · g_row; a key of None is the ground, k = 0."""

    row: int
    sign: int
    x: int | None
    y: int | None
    bound: float
    weight: int


@dataclass(frozen=True)
class WidthOneProof:
    """A proof that no module of width 1 exists."""

    links: tuple[QuerySignConstraint, ...]
    """What forces the signs; without steps, a closed walk that contradicts itself."""
    steps: tuple[ProofStep, ...] = ()
    budget: float | None = None
    """The limit on the logits that it holds for; None: any."""
    cases: tuple["WidthOneProof", ...] = ()
    """Where links leave signs open: one contradiction for every way to choose them."""

    @property
    def rows_in_proof(self) -> list[int]:
        own = {row for link in self.links for row in link.rows} | {step.row for step in self.steps}
        return sorted(own.union(*(case.rows_in_proof for case in self.cases)))

    def convert_proof_to_json(self) -> JsonObject:
        """The proof for reports; whole numbers as text, since JSON readers may have only 53 bits."""
        links = [
            {
                "rows": list(link.rows),
                "keys": list(link.keys),
                "relation": "same" if link.same else "opposite",
            }
            for link in self.links
        ]
        steps = [{**step._asdict(), "weight": str(step.weight)} for step in self.steps]
        kind = "cases" if self.cases else "sum" if steps else "signs"
        description: JsonObject = {
            "kind": kind,
            "links": links,
            "steps": steps,
            "budget": self.budget,
        }
        return description | (
            {"cases": [case.convert_proof_to_json() for case in self.cases]} if self.cases else {}
        )


def verify_width_one_proof(proof: WidthOneProof, constraints: WidthOneConstraints) -> bool:
    """Verify the proof in whole numbers, from the request alone."""
    if not all(is_query_sign_constraint_valid(link, constraints) for link in proof.links):
        return False
    if proof.cases:
        return do_cases_cover_every_sign_choice(proof, constraints)
    if not proof.steps:
        walk = proof.links or (QuerySignConstraint((0, 0), (0, 0), True),)
        closed = all(
            a.rows[1] == b.rows[0] for a, b in zip(walk, [*walk[1:], walk[0]], strict=True)
        )
        both = {link.rows for link in walk}
        return (closed or len(both) == 1) and sum(not link.same for link in walk) % 2 == 1
    return len(
        set(map_rows_to_sign_trees(proof, proof.links).values())
    ) == 1 and is_sum_of_proof_steps_contradictory(proof, constraints)


def map_rows_to_sign_trees(
    proof: WidthOneProof, links: Sequence[QuerySignConstraint]
) -> dict[int, tuple[int, int]]:
    """Of every row of the steps, its tree of links and the tree's flip; rows against their links are a tree of no one."""
    sign = {step.row: step.sign for step in proof.steps}
    tree = {row: (row, 1) for row in sign} | {row: (row, 1) for link in links for row in link.rows}
    for _ in tree:
        before = dict(tree)
        for link in links:
            (a, b), way = link.rows, 1 if link.same else -1
            root, turn = min(tree[a], (tree[b][0], way * tree[b][1]), key=lambda end: end[0])
            tree[a], tree[b] = (root, turn), (root, way * turn)
        if tree == before:
            break
    return {row: (tree[row][0], tree[row][1] * sign[row]) for row in sign}


def do_cases_cover_every_sign_choice(
    proof: WidthOneProof, constraints: WidthOneConstraints
) -> bool:
    """Whether the cases together contradict every choice of the signs that links leave open."""
    chosen = []
    for case in proof.cases:
        flips: dict[int, set[int]] = defaultdict(set)
        for tree, flip in map_rows_to_sign_trees(case, proof.links).values():
            flips[tree].add(flip)
        if any(len(both) > 1 for both in flips.values()) or not is_sum_of_proof_steps_contradictory(
            case, constraints
        ):
            return False
        chosen.append({tree: both.pop() for tree, both in flips.items()})
    trees = sorted({tree for case in chosen for tree in case})
    if len(trees) > MOST_TREES:
        return False
    return all(
        any(len({flip * way[tree] for tree, flip in case.items()}) == 1 for case in chosen)
        for way in (
            dict(zip(trees, flips, strict=True)) for flips in product((1, -1), repeat=len(trees))
        )
    )


def is_sum_of_proof_steps_contradictory(
    proof: WidthOneProof, constraints: WidthOneConstraints
) -> bool:
    """Check that keys cancel, factors are negative, and no bound is below the request's."""
    keys: dict[int | None, int] = defaultdict(int)
    factor: dict[int, Fraction] = defaultdict(Fraction)
    size: dict[int, Fraction] = defaultdict(Fraction)
    for step in proof.steps:
        if step.weight < 0 or step.bound < find_logit_bound_of_proof_step(step, proof, constraints):
            return False
        keys[step.x] += step.sign * step.weight
        keys[step.y] -= step.sign * step.weight
        added = step.weight * Fraction(step.bound)
        factor[step.row] += added
        size[step.row] += abs(added)
    balanced = all(total == 0 for key, total in keys.items() if key is not None)
    margin = Fraction(ROUNDING)
    return balanced and all(factor[row] < -margin * size[row] for row in factor)


def find_logit_bound_of_proof_step(
    step: ProofStep, proof: WidthOneProof, constraints: WidthOneConstraints
) -> float:
    """The bound that the request, or the budget, sets on the two keys of a step."""
    if step.x is None or step.y is None:
        known = (
            proof.budget is not None
            and max(step.x or 0, step.y or 0) < constraints.visible_counts[step.row]
        )
        return proof.budget if known and proof.budget is not None else float("inf")
    return constraints.bound_logit_difference(step.row, step.x, step.y)


Weighed = tuple[int, int, int | None, int | None, float, float]
"""Row, sign, x, y, bound, and a weight that is nearly right."""

BITS = 60
NOTHING = 1e-13
"""Of the largest dual value: what a solver means by 0."""


def round_proof_weights_to_integers(weighed: Iterable[Weighed]) -> tuple[ProofStep, ...]:
    """Round to whole weights near the given ones such that every key cancels.

    The conditions are arrows from y to x; the given weights are nearly a flow in circles. What rounding leaves over at a
    key is led on along arrows of the flow itself, whose ends meet again because it goes in circles; conditions of weight 0
    are used where a weight was too small for the solver.
    """
    chosen = list(weighed)
    weights = [each[5] for each in chosen if each[5] > 0.0]
    if not weights:
        return ()
    wide = min(weights) < max(weights) * NOTHING
    unit = Fraction(2**BITS) / Fraction(min(weights) if wide else max(weights))
    amounts = [round(Fraction(each[5]) * unit) for each in chosen]
    arrows = [(y, x) if sign > 0 else (x, y) for _, sign, x, y, _, _ in chosen]
    balance_proof_weights_between_keys(arrows, amounts, bound_multiples_of_proof_conditions(chosen))
    return tuple(
        ProofStep(row, sign, x, y, bound, amount)
        for (row, sign, x, y, bound, _), amount in zip(chosen, amounts, strict=True)
        if amount > 0
    )


def bound_multiples_of_proof_conditions(weighed: Sequence[Weighed]) -> list[float]:
    """How large a multiple of each condition its row can balance; unlimited for negative bounds, which force a strict
    order."""
    size: dict[int, float] = defaultdict(float)
    for row, _, _, _, bound, weight in weighed:
        size[row] += weight * abs(bound)
    return [
        size[row] / bound if bound > 0.0 else float("inf") for row, _, _, _, bound, _ in weighed
    ]


def balance_proof_weights_between_keys(
    arrows: Sequence[tuple[int | None, int | None]], amounts: list[int], thick: Sequence[float]
) -> None:
    """Raise amounts until the flow into every key equals the flow out of it."""
    leaving: dict[int | None, list[int]] = defaultdict(list)
    over: dict[int | None, int] = defaultdict(int)
    for number, (start, end) in enumerate(arrows):
        leaving[start].append(number)
        over[end] += amounts[number]
        over[start] -= amounts[number]
    for key in [key for key, rest in over.items() if rest > 0]:
        while over[key] > 0:
            path = find_widest_flow_path(key, arrows, thick, leaving, over)
            if not path:
                return  # not a flow in circles: the check will say so
            last = arrows[path[-1]][1]
            moved = min(over[key], -over[last])
            for number in path:
                amounts[number] += moved
            over[key] -= moved
            over[last] += moved


def find_widest_flow_path(
    key: int | None,
    arrows: Sequence[tuple[int | None, int | None]],
    thick: Sequence[float],
    leaving: Mapping[int | None, Sequence[int]],
    over: Mapping[int | None, int],
) -> list[int]:
    """Find the path along arrows to a key with a deficit whose thinnest arrow is as thick as possible.

    Where weights are far apart, what is left over at a thick arrow must not be led over a thin one.
    """
    came: dict[int | None, int] = {}
    done = {key}
    front = [(-thick[number], 0, number) for number in leaving.get(key, ())]
    heapify(front)
    while front:
        width, hops, number = heappop(front)
        place = arrows[number][1]
        if place in done:
            continue
        done.add(place)
        came[place] = number
        if over[place] < 0:
            return trace_flow_path(key, place, arrows, came)
        for further in leaving.get(place, ()):
            heappush(front, (max(width, -thick[further]), hops + 1, further))
    return []


def trace_flow_path(
    key: int | None,
    end: int | None,
    arrows: Sequence[tuple[int | None, int | None]],
    came: Mapping[int | None, int],
) -> list[int]:
    path: list[int] = []
    while end != key:
        path.append(came[end])
        end = arrows[came[end]][0]
    return path[::-1]
