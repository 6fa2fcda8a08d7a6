"""Yes, no, or not decided: whether width 1 is enough for what is asked, and how large the logits must be."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from attncli.maths.capacity.line.chain import chain_of, contradiction, least_gaps, places
from attncli.maths.capacity.line.constraints import Array, LineDemands
from attncli.maths.capacity.line.infeasibility import LineProof, holds
from attncli.maths.capacity.line.linear_programme import SMALLEST, LineProgramme, Placed
from attncli.maths.capacity.line.signs import Signs, signs, tree_links
from attncli.maths.capacity.line.towers import Tower, is_solved, tower

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
class OnLine:
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


def decided(asked: LineDemands, budget: float) -> OnLine:
    """Whether keys on a line can do what is asked with logits up to the budget, in exact arithmetic."""
    length = asked.target.shape[0]
    if not len(asked.rows):
        nothing = np.zeros(length), np.zeros(0), np.ones(length, dtype=np.int64)
        return OnLine(True, "equal weights serve every row", None, 0.0, None, *nothing)
    if length > MOST_TOKENS:
        return OnLine(None, f"more than {MOST_TOKENS:,} tokens are not compared row by row")
    found = signs(asked)
    if found.odd:
        return refused(asked, LineProof(found.odd), "rows pull against each other")
    if asked.even and not asked.masked:
        answer = by_chain(asked, found, budget)
        if answer is not None:
            return answer
    return by_programme(asked, found, budget)


def refused(asked: LineDemands, proof: LineProof, why: str) -> OnLine:
    """A no is one only with a proof that holds."""
    if holds(proof, asked):
        return OnLine(False, why, proof)
    return OnLine(None, f"{why}, but the proof does not outlast rounding")


def by_chain(asked: LineDemands, found: Signs, budget: float) -> OnLine | None:
    chain = chain_of(asked, found)
    if chain is None:
        return None
    least = least_gaps(chain)

    def proof(limit: float | None) -> LineProof:
        steps = contradiction(chain, least, limit)
        return LineProof(tree_links(asked, found, {step.row for step in steps}), steps, limit)

    if least.circular:
        return refused(asked, proof(None), "two supports each need the wider gap")
    if least.logits * SHORT > budget:
        return refused(asked, proof(budget), f"logits above {budget:.4g} are needed")
    keys, reach = places(chain, least)
    lower = proof(least.logits * SHORT)
    proved = holds(lower, asked)
    return OnLine(
        True, "the order of the keys is settled, and their gaps", None,
        least.logits * SHORT if proved else 0.0, lower if proved else None, keys, reach, found.sign,
    )  # fmt: skip


def by_programme(asked: LineDemands, found: Signs, budget: float) -> OnLine:
    """Every choice of signs that links leave open, one linear programme each."""
    trees = np.unique(found.component[asked.rows])
    cases: list[LineProof] = []
    exact = True
    for count, flips in enumerate(choices(len(trees))):
        if count >= SEARCHED:
            return OnLine(
                None,
                f"{SEARCHED} of {2.0 ** (len(trees) - 1):.4g} sign choices were tried: not exact",
            )
        sign = found.sign.copy()
        for tree, flip in zip(trees, flips, strict=True):
            sign[found.component == tree] *= flip
        chosen = found._replace(sign=sign)
        answer = one_choice(asked, chosen, budget, len(trees) == 1)
        if answer.possible:
            return answer
        exact &= answer.proof is not None
        if answer.proof is not None:
            cases.append(answer.proof)
        elif len(trees) > 1:
            break
    if not exact:
        return OnLine(None, "the linear programme comes too near to zero for a proof")
    if len(trees) == 1:
        return OnLine(False, why(cases[0]), cases[0])
    rows = {row for case in cases for row in case.rows}
    return refused(
        asked,
        LineProof(tree_links(asked, found, rows), cases=tuple(cases)),
        "no choice of signs works",
    )


def choices(trees: int) -> Iterator[tuple[int, ...]]:
    """All equal first, then alternating, then every other one, up to a common flip."""
    first = [(1,) * trees, tuple(1 - 2 * (place % 2) for place in range(trees))]
    yield from dict.fromkeys(first)
    for rest in product((1, -1), repeat=max(trees - 1, 0)):
        if (1, *rest) not in first:
            yield (1, *rest)


def why(proof: LineProof) -> str:
    return (
        "the conditions contradict one another"
        if proof.budget is None
        else f"logits above {proof.budget:.4g} are needed"
    )


def one_choice(asked: LineDemands, found: Signs, budget: float, alone: bool) -> OnLine:
    """The linear programme without a budget, then with smaller and smaller ones."""
    programme = LineProgramme(asked, found.sign)
    placed = programme.solved(None)
    if placed.room < SMALLEST or not placed.finished:
        proof = proof_of(asked, found, placed, None, alone) or proof_of_few(
            asked, found, None, alone
        )
        if proof is not None:
            return OnLine(False, "", proof)
        high = tower(asked, found.sign, budget)
        if high is None or not is_solved(high.placed):
            proof = proof_of_tower(found, high, budget, alone)
            return OnLine(False if proof else None, "", proof)
        programme, placed = high.programme, high.placed
    best, low, proof = least_budget(programme, asked, found, placed, budget, alone)
    if best is None:
        limited = proof if proof is not None and proof.budget == budget else None
        return OnLine(False if limited else None, "", limited)
    return OnLine(
        True,
        "a linear programme places the keys",
        None,
        low,
        proof,
        best.keys,
        best.reach,
        found.sign,
    )


def proof_of(
    asked: LineDemands, found: Signs, placed: Placed, budget: float | None, alone: bool
) -> LineProof | None:
    """What the dual solution says, if it holds; with open signs it is one case and is checked among all."""
    if not placed.steps:
        return None
    links = tree_links(asked, found, {step.row for step in placed.steps})
    proof = LineProof(links, placed.steps, budget)
    return proof if not alone or holds(proof, asked) else None


def proof_of_tower(
    found: Signs, high: Tower | None, budget: float, alone: bool
) -> LineProof | None:
    """Rows at the foot of a tower that need more than the budget."""
    if high is None or high.budget != budget:
        return None
    return proof_of(high.programme.asked, found, high.placed, budget, alone)


def proof_of_few(
    asked: LineDemands, found: Signs, budget: float | None, alone: bool
) -> LineProof | None:
    for count in PREFIXES:
        if count >= len(asked.rows):
            return None
        few = asked.only(asked.rows[:count])
        placed = LineProgramme(few, found.sign).solved(budget)
        proof = proof_of(few, found, placed, budget, alone)
        if proof is not None:
            return proof
    return None


def least_budget(
    programme: LineProgramme,
    asked: LineDemands,
    found: Signs,
    placed: Placed,
    budget: float,
    alone: bool,
) -> tuple[Placed | None, float, LineProof | None]:
    """The solution with the smallest logits, the largest budget proved too small, and the proof."""
    reached = scale(asked, centred(asked, placed))
    best = placed if reached <= budget else None
    high, low, proof, blind = min(reached, budget), 0.0, None, 0.0
    now = high if best is None else 0.5 * high
    for _ in range(halvings(asked)):
        tried = programme.solved(now)
        if tried.room >= SMALLEST and tried.finished:
            best, high = tried, now
        else:
            found_proof = proof_of(asked, found, tried, now, alone)
            low, proof = (now, found_proof) if found_proof is not None else (low, proof)
            blind = now
            if now >= budget:
                break
        now = 0.5 * high if blind == 0.0 else float(np.sqrt(blind * high))
        if blind and high < 1.01 * blind:
            break
    return best, low, proof


def halvings(asked: LineDemands) -> int:
    """How closely the least budget is looked for: each step is a programme as large as the pattern."""
    return HALVINGS if len(asked.rows) <= MANY_ROWS else FEW_HALVINGS


def centred(asked: LineDemands, placed: Placed) -> Placed:
    """Without a mask only differences of keys count: the middle at 0 has the smallest logits."""
    middle = 0.5 * (placed.keys.max() + placed.keys.min())
    return placed if asked.masked else placed._replace(keys=placed.keys - middle)


def scale(asked: LineDemands, placed: Placed) -> float:
    """The largest |logit| of a visible pair."""
    largest = np.maximum.accumulate(np.abs(placed.keys))[asked.seen[asked.rows] - 1]
    return float((largest / placed.reach).max())


def placed_on(
    asked: LineDemands, sign: NDArray[np.int64], budget: float
) -> tuple[Array, Array] | tuple[None, None]:
    """Keys and reaches with small logits for these bounds and signs, without proofs; None where none were found."""
    found = Signs(sign, np.zeros_like(sign), np.full(len(sign), -1), ())
    if asked.even and not asked.masked:
        chain = chain_of(asked, found)
        if chain is not None:
            least = least_gaps(chain)
            return places(chain, least) if least.logits <= budget else (None, None)
    programme = LineProgramme(asked, sign)
    best = programme.solved(None)
    if not is_solved(best):
        high = tower(asked, sign, budget)
        if high is None or not is_solved(high.placed):
            return None, None
        programme, best = high.programme, high.placed
    now = scale(asked, centred(asked, best))
    for _ in range(halvings(asked)):
        now *= 0.5
        tried = programme.solved(now)
        if tried.room < SMALLEST or not tried.finished:
            break
        best = tried
    return best.keys, best.reach
