"""Decide whether width 1 is enough for a request (yes, no, or undecided), and how large the logits must be."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from attncli.maths.head_capacity.head_width_one.infeasibility_proof import (
    WidthOneProof,
    verify_width_one_proof,
)
from attncli.maths.head_capacity.head_width_one.key_position_linear_programme import (
    SMALLEST,
    WidthOneProgramme,
    WidthOneSolution,
)
from attncli.maths.head_capacity.head_width_one.logit_constraints import Array, WidthOneConstraints
from attncli.maths.head_capacity.head_width_one.logit_growth_over_rows import (
    GrowingLogits,
    is_linear_programme_solved,
    solve_rows_of_growing_logits,
)
from attncli.maths.head_capacity.head_width_one.nested_supports import (
    compute_key_positions_from_gaps,
    find_nested_order,
    find_smallest_key_gaps,
    prove_key_gaps_exceed_budget,
)
from attncli.maths.head_capacity.head_width_one.query_signs import (
    QuerySigns,
    find_query_signs,
    list_sign_constraints_of_rows,
)
from attncli.maths.number_format import format_short_number

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
class WidthOneDecision:
    """What is known about width 1; keys and reaches are those of the solution with the smallest logits."""

    possible: bool | None
    """None: not decided."""
    reason: str
    proof: WidthOneProof | None = None
    """Of no."""
    least: float = 0.0
    """No logits below it do."""
    least_proof: WidthOneProof | None = None
    keys: Array | None = None
    reach: Array | None = None
    """g of every row that asks."""
    sign: NDArray[np.int64] | None = None


def decide_width_one(constraints: WidthOneConstraints, budget: float) -> WidthOneDecision:
    """Whether keys on a line can meet the request with logits up to the budget, in exact arithmetic."""
    length = constraints.target.shape[0]
    if not len(constraints.rows):
        nothing = np.zeros(length), np.zeros(0), np.ones(length, dtype=np.int64)
        return WidthOneDecision(True, "equal weights serve every row", None, 0.0, None, *nothing)
    if length > MOST_TOKENS:
        return WidthOneDecision(
            None, f"more than {MOST_TOKENS:,} tokens are not compared row by row"
        )
    found = find_query_signs(constraints)
    if found.odd:
        return refute_width_one_with_proof(
            constraints, WidthOneProof(found.odd), "rows pull against each other"
        )
    if constraints.has_uniform_weights and not constraints.has_masked_keys:
        answer = decide_width_one_by_nested_order(constraints, found, budget)
        if answer is not None:
            return answer
    return decide_width_one_by_programme(constraints, found, budget)


def refute_width_one_with_proof(
    constraints: WidthOneConstraints, proof: WidthOneProof, why: str
) -> WidthOneDecision:
    """Return a "no" if its proof is verified, else "undecided"."""
    if verify_width_one_proof(proof, constraints):
        return WidthOneDecision(False, why, proof)
    return WidthOneDecision(None, f"{why}, but the proof does not outlast rounding")


def decide_width_one_by_nested_order(
    constraints: WidthOneConstraints, signs: QuerySigns, budget: float
) -> WidthOneDecision | None:
    chain = find_nested_order(constraints, signs)
    if chain is None:
        return None
    least = find_smallest_key_gaps(chain)

    def build_width_one_proof(limit: float | None) -> WidthOneProof:
        steps = prove_key_gaps_exceed_budget(chain, least, limit)
        return WidthOneProof(
            list_sign_constraints_of_rows(constraints, signs, {step.row for step in steps}),
            steps,
            limit,
        )

    if least.circular:
        return refute_width_one_with_proof(
            constraints, build_width_one_proof(None), "two supports each need the wider gap"
        )
    if least.logits * SHORT > budget:
        return refute_width_one_with_proof(
            constraints,
            build_width_one_proof(budget),
            f"logits above {format_short_number(budget, 4)} are needed",
        )
    keys, reach = compute_key_positions_from_gaps(chain, least)
    lower = build_width_one_proof(least.logits * SHORT)
    proved = verify_width_one_proof(lower, constraints)
    return WidthOneDecision(
        True,
        "the order of the keys is settled, and their gaps",
        None,
        least.logits * SHORT if proved else 0.0,
        lower if proved else None,
        keys=keys,
        reach=reach,
        sign=signs.sign,
    )


def decide_width_one_by_programme(
    constraints: WidthOneConstraints, signs: QuerySigns, budget: float
) -> WidthOneDecision:
    """Solve one linear programme for each choice of signs that the links between rows leave open."""
    trees = np.unique(signs.component[constraints.rows])
    cases: list[WidthOneProof] = []
    exact = True
    for count, flips in enumerate(iter_query_sign_choices(len(trees))):
        if count >= SEARCHED:
            return WidthOneDecision(
                None,
                f"{SEARCHED} of {format_short_number(2.0 ** (len(trees) - 1), 4)} sign choices were tried: not exact",
            )
        sign = signs.sign.copy()
        for tree, flip in zip(trees, flips, strict=True):
            sign[signs.component == tree] *= flip
        chosen = signs._replace(sign=sign)
        answer = solve_programme_for_query_signs(constraints, chosen, budget, len(trees) == 1)
        if answer.possible:
            return answer
        exact &= answer.proof is not None
        if answer.proof is not None:
            cases.append(answer.proof)
        elif len(trees) > 1:
            break
    if not exact:
        return WidthOneDecision(None, "the linear programme comes too near to zero for a proof")
    if len(trees) == 1:
        return WidthOneDecision(False, describe_infeasibility_proof(cases[0]), cases[0])
    rows = {row for case in cases for row in case.rows_in_proof}
    return refute_width_one_with_proof(
        constraints,
        WidthOneProof(list_sign_constraints_of_rows(constraints, signs, rows), cases=tuple(cases)),
        "no choice of signs works",
    )


def iter_query_sign_choices(trees: int) -> Iterator[tuple[int, ...]]:
    """Iterate over choices of signs, up to a global flip: all equal, alternating, then all others."""
    first = [(1,) * trees, tuple(1 - 2 * (place % 2) for place in range(trees))]
    yield from dict.fromkeys(first)
    for rest in product((1, -1), repeat=max(trees - 1, 0)):
        if (1, *rest) not in first:
            yield (1, *rest)


def describe_infeasibility_proof(proof: WidthOneProof) -> str:
    return (
        "the conditions contradict one another"
        if proof.budget is None
        else f"logits above {format_short_number(proof.budget, 4)} are needed"
    )


def solve_programme_for_query_signs(
    constraints: WidthOneConstraints, signs: QuerySigns, budget: float, alone: bool
) -> WidthOneDecision:
    """Solve the linear programme without a budget, then with smaller and smaller budgets."""
    programme = WidthOneProgramme(constraints, signs.sign)
    placed = programme.solve_within_logit_budget(None)
    if placed.room < SMALLEST or not placed.finished:
        proof = make_proof_from_dual_solution(
            constraints, signs, placed, None, alone
        ) or prove_infeasible_by_few_rows(constraints, signs, None, alone)
        if proof is not None:
            return WidthOneDecision(False, "", proof)
        high = solve_rows_of_growing_logits(constraints, signs.sign, budget)
        if high is None or not is_linear_programme_solved(high.solution):
            proof = prove_infeasible_by_growing_logits(signs, high, budget, alone)
            return WidthOneDecision(False if proof else None, "", proof)
        programme, placed = high.programme, high.solution
    best, low, proof = find_smallest_logit_budget(
        programme, constraints, signs, placed, budget, alone
    )
    if best is None:
        limited = proof if proof is not None and proof.budget == budget else None
        return WidthOneDecision(False if limited else None, "", limited)
    return WidthOneDecision(
        True,
        "a linear programme places the keys",
        None,
        low,
        proof,
        keys=best.keys,
        reach=best.reach,
        sign=signs.sign,
    )


def make_proof_from_dual_solution(
    constraints: WidthOneConstraints,
    signs: QuerySigns,
    placed: WidthOneSolution,
    budget: float | None,
    alone: bool,
) -> WidthOneProof | None:
    """Make a proof from the dual solution if it is valid; with open signs it is one case, checked together with the
    others."""
    if not placed.steps:
        return None
    links = list_sign_constraints_of_rows(constraints, signs, {step.row for step in placed.steps})
    proof = WidthOneProof(links, placed.steps, budget)
    return proof if not alone or verify_width_one_proof(proof, constraints) else None


def prove_infeasible_by_growing_logits(
    signs: QuerySigns, high: GrowingLogits | None, budget: float, alone: bool
) -> WidthOneProof | None:
    """Prove that the rows of the tower contradict the budget."""
    if high is None or high.budget != budget:
        return None
    return make_proof_from_dual_solution(
        high.programme.constraints, signs, high.solution, budget, alone
    )


def prove_infeasible_by_few_rows(
    constraints: WidthOneConstraints, signs: QuerySigns, budget: float | None, alone: bool
) -> WidthOneProof | None:
    """Prove by a programme of a few rows alone, with smaller numbers."""
    for count in PREFIXES:
        if count >= len(constraints.rows):
            return None
        few = constraints.select_constraints_of_rows(constraints.rows[:count])
        placed = WidthOneProgramme(few, signs.sign).solve_within_logit_budget(budget)
        proof = make_proof_from_dual_solution(few, signs, placed, budget, alone)
        if proof is not None:
            return proof
    return None


def find_smallest_logit_budget(
    programme: WidthOneProgramme,
    constraints: WidthOneConstraints,
    signs: QuerySigns,
    placed: WidthOneSolution,
    budget: float,
    alone: bool,
) -> tuple[WidthOneSolution | None, float, WidthOneProof | None]:
    """The solution with the smallest logits, the largest budget proved too small, and the proof."""
    reached = find_largest_visible_logit(constraints, centre_key_positions(constraints, placed))
    best = placed if reached <= budget else None
    high, low, proof, blind = min(reached, budget), 0.0, None, 0.0
    now = high if best is None else 0.5 * high
    for _ in range(count_budget_bisection_steps(constraints)):
        tried = programme.solve_within_logit_budget(now)
        if tried.room >= SMALLEST and tried.finished:
            best, high = tried, now
        else:
            found_proof = make_proof_from_dual_solution(constraints, signs, tried, now, alone)
            low, proof = (now, found_proof) if found_proof is not None else (low, proof)
            blind = now
            if now >= budget:
                break
        now = 0.5 * high if blind == 0.0 else float(np.sqrt(blind * high))
        if blind and high < 1.01 * blind:
            break
    return best, low, proof


def count_budget_bisection_steps(constraints: WidthOneConstraints) -> int:
    """How many bisection steps the search for the smallest budget takes: each is a programme as large as the pattern."""
    return HALVINGS if len(constraints.rows) <= MANY_ROWS else FEW_HALVINGS


def centre_key_positions(
    constraints: WidthOneConstraints, placed: WidthOneSolution
) -> WidthOneSolution:
    """Centre the keys at 0, which gives the smallest logits: without a mask, only differences of keys matter."""
    middle = 0.5 * (placed.keys.max() + placed.keys.min())
    return placed if constraints.has_masked_keys else placed._replace(keys=placed.keys - middle)


def find_largest_visible_logit(constraints: WidthOneConstraints, placed: WidthOneSolution) -> float:
    """The largest |logit| of a visible pair."""
    largest = np.maximum.accumulate(np.abs(placed.keys))[
        constraints.visible_counts[constraints.rows] - 1
    ]
    return float((largest / placed.reach).max())


def place_keys_on_line(
    constraints: WidthOneConstraints, sign: NDArray[np.int64], budget: float
) -> tuple[Array, Array] | tuple[None, None]:
    """Keys and reaches with small logits for these bounds and signs, without proofs; None where none were found."""
    found = QuerySigns(sign, np.zeros_like(sign), np.full(len(sign), -1), ())
    if constraints.has_uniform_weights and not constraints.has_masked_keys:
        chain = find_nested_order(constraints, found)
        if chain is not None:
            least = find_smallest_key_gaps(chain)
            return (
                compute_key_positions_from_gaps(chain, least)
                if least.logits <= budget
                else (None, None)
            )
    programme = WidthOneProgramme(constraints, sign)
    best = programme.solve_within_logit_budget(None)
    if not is_linear_programme_solved(best):
        high = solve_rows_of_growing_logits(constraints, sign, budget)
        if high is None or not is_linear_programme_solved(high.solution):
            return None, None
        programme, best = high.programme, high.solution
    now = find_largest_visible_logit(constraints, centre_key_positions(constraints, best))
    for _ in range(count_budget_bisection_steps(constraints)):
        now *= 0.5
        tried = programme.solve_within_logit_budget(now)
        if tried.room < SMALLEST or not tried.finished:
            break
        best = tried
    return best.keys, best.reach
