"""Decide whether width 1 is enough for a request (yes, no, or undecided), and how large the logits must be."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from attncli.maths.capacity.width_one.constraints import Array, LineConstraints
from attncli.maths.capacity.width_one.growing_logits import Tower, is_solved, solve_tower
from attncli.maths.capacity.width_one.infeasibility_proof import LineProof, proof_holds
from attncli.maths.capacity.width_one.linear_programme import SMALLEST, LineProgramme, LineSolution
from attncli.maths.capacity.width_one.nested_order import (
    chain_positions,
    find_contradiction,
    find_nested_order,
    least_gaps,
)
from attncli.maths.capacity.width_one.row_signs import Signs, find_signs, tree_links

MOST_TOKENS = 8192
"""Above, supports are not compared row by row: the tables of rows against rows take ten times n² numbers, 2.7 GB here."""
SHORT = 0.999
"""Of the least logit scale: where its proof is taken, so that rounding does not decide."""
SEARCHED = 128
"""Sign choices that are tried where the mask leaves them open."""
HALVINGS, FEW_HALVINGS, MANY_ROWS = 9, 4, 600
PREFIXES = (4, 6, 8, 12, 16, 24, 32, 48)
"""Rows that are looked at alone where all of them defeat the solver: few rows prove as much."""


@dataclass(frozen=True)
class LineDecision:
    """What is known about width 1; keys and reaches are those of the solution with the smallest logits."""

    possible: bool | None
    """None: not decided."""
    reason: str
    proof: LineProof | None = None
    """Of no."""
    least: float = 0.0
    """No logits below it do."""
    least_proof: LineProof | None = None
    keys: Array | None = None
    reach: Array | None = None
    """g of every row that asks."""
    sign: NDArray[np.int64] | None = None


def decide_width_one(constraints: LineConstraints, budget: float) -> LineDecision:
    """Whether keys on a line can meet the request with logits up to the budget, in exact arithmetic."""
    length = constraints.target.shape[0]
    if not len(constraints.rows):
        nothing = np.zeros(length), np.zeros(0), np.ones(length, dtype=np.int64)
        return LineDecision(True, "equal weights serve every row", None, 0.0, None, *nothing)
    if length > MOST_TOKENS:
        return LineDecision(None, f"more than {MOST_TOKENS:,} tokens are not compared row by row")
    found = find_signs(constraints)
    if found.odd:
        return refute_with_proof(constraints, LineProof(found.odd), "rows pull against each other")
    if constraints.is_uniform and not constraints.masked:
        answer = decide_by_chain(constraints, found, budget)
        if answer is not None:
            return answer
    return decide_by_programme(constraints, found, budget)


def refute_with_proof(constraints: LineConstraints, proof: LineProof, why: str) -> LineDecision:
    """Return a "no" if its proof is verified, else "undecided"."""
    if proof_holds(proof, constraints):
        return LineDecision(False, why, proof)
    return LineDecision(None, f"{why}, but the proof does not outlast rounding")


def decide_by_chain(
    constraints: LineConstraints, signs: Signs, budget: float
) -> LineDecision | None:
    chain = find_nested_order(constraints, signs)
    if chain is None:
        return None
    least = least_gaps(chain)

    def build_proof(limit: float | None) -> LineProof:
        steps = find_contradiction(chain, least, limit)
        return LineProof(tree_links(constraints, signs, {step.row for step in steps}), steps, limit)

    if least.circular:
        return refute_with_proof(
            constraints, build_proof(None), "two supports each need the wider gap"
        )
    if least.logits * SHORT > budget:
        return refute_with_proof(
            constraints, build_proof(budget), f"logits above {budget:.4g} are needed"
        )
    keys, reach = chain_positions(chain, least)
    lower = build_proof(least.logits * SHORT)
    proved = proof_holds(lower, constraints)
    return LineDecision(
        True,
        "the order of the keys is settled, and their gaps",
        None,
        least.logits * SHORT if proved else 0.0,
        lower if proved else None,
        keys=keys,
        reach=reach,
        sign=signs.sign,
    )


def decide_by_programme(constraints: LineConstraints, signs: Signs, budget: float) -> LineDecision:
    """Solve one linear programme for each choice of signs that the links between rows leave open."""
    trees = np.unique(signs.component[constraints.rows])
    cases: list[LineProof] = []
    exact = True
    for count, flips in enumerate(iter_sign_choices(len(trees))):
        if count >= SEARCHED:
            return LineDecision(
                None,
                f"{SEARCHED} of {2.0 ** (len(trees) - 1):.4g} sign choices were tried: not exact",
            )
        sign = signs.sign.copy()
        for tree, flip in zip(trees, flips, strict=True):
            sign[signs.component == tree] *= flip
        chosen = signs._replace(sign=sign)
        answer = solve_sign_choice(constraints, chosen, budget, len(trees) == 1)
        if answer.possible:
            return answer
        exact &= answer.proof is not None
        if answer.proof is not None:
            cases.append(answer.proof)
        elif len(trees) > 1:
            break
    if not exact:
        return LineDecision(None, "the linear programme comes too near to zero for a proof")
    if len(trees) == 1:
        return LineDecision(False, describe_proof(cases[0]), cases[0])
    rows = {row for case in cases for row in case.rows}
    return refute_with_proof(
        constraints,
        LineProof(tree_links(constraints, signs, rows), cases=tuple(cases)),
        "no choice of signs works",
    )


def iter_sign_choices(trees: int) -> Iterator[tuple[int, ...]]:
    """Iterate over choices of signs, up to a global flip: all equal, alternating, then all others."""
    first = [(1,) * trees, tuple(1 - 2 * (place % 2) for place in range(trees))]
    yield from dict.fromkeys(first)
    for rest in product((1, -1), repeat=max(trees - 1, 0)):
        if (1, *rest) not in first:
            yield (1, *rest)


def describe_proof(proof: LineProof) -> str:
    return (
        "the conditions contradict one another"
        if proof.budget is None
        else f"logits above {proof.budget:.4g} are needed"
    )


def solve_sign_choice(
    constraints: LineConstraints, signs: Signs, budget: float, alone: bool
) -> LineDecision:
    """Solve the linear programme without a budget, then with smaller and smaller budgets."""
    programme = LineProgramme(constraints, signs.sign)
    placed = programme.solve(None)
    if placed.room < SMALLEST or not placed.finished:
        proof = make_proof(constraints, signs, placed, None, alone) or prove_by_few_rows(
            constraints, signs, None, alone
        )
        if proof is not None:
            return LineDecision(False, "", proof)
        high = solve_tower(constraints, signs.sign, budget)
        if high is None or not is_solved(high.placed):
            proof = prove_by_tower(signs, high, budget, alone)
            return LineDecision(False if proof else None, "", proof)
        programme, placed = high.programme, high.placed
    best, low, proof = least_budget(programme, constraints, signs, placed, budget, alone)
    if best is None:
        limited = proof if proof is not None and proof.budget == budget else None
        return LineDecision(False if limited else None, "", limited)
    return LineDecision(
        True,
        "a linear programme places the keys",
        None,
        low,
        proof,
        keys=best.keys,
        reach=best.reach,
        sign=signs.sign,
    )


def make_proof(
    constraints: LineConstraints,
    signs: Signs,
    placed: LineSolution,
    budget: float | None,
    alone: bool,
) -> LineProof | None:
    """Make a proof from the dual solution if it is valid; with open signs it is one case, checked together with the
    others."""
    if not placed.steps:
        return None
    links = tree_links(constraints, signs, {step.row for step in placed.steps})
    proof = LineProof(links, placed.steps, budget)
    return proof if not alone or proof_holds(proof, constraints) else None


def prove_by_tower(
    signs: Signs, high: Tower | None, budget: float, alone: bool
) -> LineProof | None:
    """Prove that the rows of the tower contradict the budget."""
    if high is None or high.budget != budget:
        return None
    return make_proof(high.programme.asked, signs, high.placed, budget, alone)


def prove_by_few_rows(
    constraints: LineConstraints, signs: Signs, budget: float | None, alone: bool
) -> LineProof | None:
    """Prove by a programme of a few rows alone, with smaller numbers."""
    for count in PREFIXES:
        if count >= len(constraints.rows):
            return None
        few = constraints.select_rows(constraints.rows[:count])
        placed = LineProgramme(few, signs.sign).solve(budget)
        proof = make_proof(few, signs, placed, budget, alone)
        if proof is not None:
            return proof
    return None


def least_budget(
    programme: LineProgramme,
    constraints: LineConstraints,
    signs: Signs,
    placed: LineSolution,
    budget: float,
    alone: bool,
) -> tuple[LineSolution | None, float, LineProof | None]:
    """The solution with the smallest logits, the largest budget proved too small, and the proof."""
    reached = largest_logit(constraints, centre_keys(constraints, placed))
    best = placed if reached <= budget else None
    high, low, proof, blind = min(reached, budget), 0.0, None, 0.0
    now = high if best is None else 0.5 * high
    for _ in range(count_bisection_steps(constraints)):
        tried = programme.solve(now)
        if tried.room >= SMALLEST and tried.finished:
            best, high = tried, now
        else:
            found_proof = make_proof(constraints, signs, tried, now, alone)
            low, proof = (now, found_proof) if found_proof is not None else (low, proof)
            blind = now
            if now >= budget:
                break
        now = 0.5 * high if blind == 0.0 else float(np.sqrt(blind * high))
        if blind and high < 1.01 * blind:
            break
    return best, low, proof


def count_bisection_steps(constraints: LineConstraints) -> int:
    """How many bisection steps the search for the smallest budget takes: each is a programme as large as the pattern."""
    return HALVINGS if len(constraints.rows) <= MANY_ROWS else FEW_HALVINGS


def centre_keys(constraints: LineConstraints, placed: LineSolution) -> LineSolution:
    """Centre the keys at 0, which gives the smallest logits: without a mask, only differences of keys matter."""
    middle = 0.5 * (placed.keys.max() + placed.keys.min())
    return placed if constraints.masked else placed._replace(keys=placed.keys - middle)


def largest_logit(constraints: LineConstraints, placed: LineSolution) -> float:
    """The largest |logit| of a visible pair."""
    largest = np.maximum.accumulate(np.abs(placed.keys))[constraints.seen[constraints.rows] - 1]
    return float((largest / placed.reach).max())


def place_keys(
    constraints: LineConstraints, sign: NDArray[np.int64], budget: float
) -> tuple[Array, Array] | tuple[None, None]:
    """Keys and reaches with small logits for these bounds and signs, without proofs; None where none were found."""
    found = Signs(sign, np.zeros_like(sign), np.full(len(sign), -1), ())
    if constraints.is_uniform and not constraints.masked:
        chain = find_nested_order(constraints, found)
        if chain is not None:
            least = least_gaps(chain)
            return chain_positions(chain, least) if least.logits <= budget else (None, None)
    programme = LineProgramme(constraints, sign)
    best = programme.solve(None)
    if not is_solved(best):
        high = solve_tower(constraints, sign, budget)
        if high is None or not is_solved(high.placed):
            return None, None
        programme, best = high.programme, high.placed
    now = largest_logit(constraints, centre_keys(constraints, best))
    for _ in range(count_bisection_steps(constraints)):
        now *= 0.5
        tried = programme.solve(now)
        if tried.room < SMALLEST or not tried.finished:
            break
        best = tried
    return best.keys, best.reach
