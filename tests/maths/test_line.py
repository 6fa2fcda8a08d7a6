"""Width 1 against brute force over all signs, and its proofs against ten lines that know nothing of how they were made."""

import itertools
import math
import random
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array

from attncli.maths.head_capacity.head_width_one import query_signs
from attncli.maths.head_capacity.head_width_one.infeasibility_proof import WidthOneProof
from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    Tolerances,
    compute_necessary_logit_constraints,
)
from attncli.maths.head_capacity.head_width_one.width_one_decision import (
    WidthOneDecision,
    decide_width_one,
)
from attncli.patterns import build_pattern

RATIO = OFF = 0.2


def wanted(ratio: float = RATIO, off: float = OFF, variation: float = 1.0) -> Tolerances:
    return Tolerances(math.log1p(ratio), math.log(off), variation)


def rows_of(supports: tuple[tuple[int, ...], ...]) -> np.ndarray:
    made = np.zeros((len(supports),) * 2)
    for row, support in enumerate(supports):
        made[row, list(support)] = 1.0 / len(support)
    return made


def decide(
    weights: np.ndarray,
    asked: Tolerances | None = None,
    budget: float = 1e300,
    causal: bool = False,
) -> WidthOneDecision:
    return decide_width_one(
        compute_necessary_logit_constraints(csr_array(weights), causal, asked or wanted()), budget
    )


def brute_force(weights: np.ndarray, asked: Tolerances, causal: bool = False) -> bool:
    """A linear programme with every pair of keys of every row, for all signs of the queries."""
    n = len(weights)
    for rest in itertools.product((1, -1), repeat=n - 1):
        left = []
        for i, sign in enumerate((1, *rest)):
            seen = range(i + 1 if causal else n)
            for x, y in itertools.permutations(seen, 2):
                if weights[i, y]:
                    a, b = weights[i, x], weights[i, y]
                    bound = math.log(a / b) + asked.log_ratio if a else asked.log_off
                    line = np.zeros(2 * n + 1)
                    line[[x, y, n + i]] = sign, -sign, -bound
                    left.append(line)
        cost = np.zeros(2 * n + 1)
        cost[-1] = -1.0
        for i in range(n):
            line = np.zeros(2 * n + 1)
            line[[n + i, -1]] = -1.0, 1.0
            left.append(line)
        limits = [(None, None)] * n + [(0, 1)] * (n + 1)
        found = linprog(cost, np.array(left), np.zeros(len(left)), bounds=limits)
        if -found.fun > 1e-9:
            return True
    return False


def bound(weights: np.ndarray, row: int, x: int, y: int) -> float:
    """What the limits ask of l_x - l_y."""
    if weights[row, y] == 0.0:
        return math.inf
    a, b = weights[row, x], weights[row, y]
    return math.log(a / b) + math.log1p(RATIO) if a else math.log(OFF)


def contradicts(proof: dict[str, Any], weights: np.ndarray) -> bool:
    """Ten lines: signs are forced, keys cancel, every factor is negative."""
    sides, sign = 1, {}
    for link in proof["links"]:
        (i, j), (x, y), same = link["rows"], link["keys"], link["relation"] == "same"
        assert bound(weights, i, y, x) < 0 > (bound(weights, j, y, x) if same else bound(weights, j, x, y))  # fmt: skip
        sides *= 1 if same else -1
    keys, factor = defaultdict(int), defaultdict(Fraction)
    for step in proof["steps"]:
        i, x, y, weight = step["row"], step["x"], step["y"], int(step["weight"])
        limit = proof["budget"] if None in (x, y) else bound(weights, i, x, y)
        assert weight >= 0 <= limit - step["bound"] + 1e-12
        assert limit <= step["bound"] + 1e-12
        assert sign.setdefault(i, step["sign"]) == step["sign"]
        keys[x] += step["sign"] * weight
        keys[y] -= step["sign"] * weight
        factor[i] += weight * Fraction(step["bound"])
    if not proof["steps"]:
        return sides == -1
    return not any(keys[key] for key in keys if key is not None) and max(factor.values()) < 0


def supports(n: int) -> list[tuple[int, ...]]:
    return [each for m in range(1, n + 1) for each in itertools.combinations(range(n), m)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dense", [0.0, 1.0])
@pytest.mark.parametrize("rows", [3, 256])
def test_links_are_those_of_sets_of_keys(
    causal: bool, dense: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By blocks of rows, sparse or not: against supports as sets, row by row; the target is left as it was."""
    monkeypatch.setattr(query_signs, "ROWS_AT_ONCE", rows)
    monkeypatch.setattr(query_signs, "DENSE", dense)
    for text in ("previous", "window:3", "random:k=2", "global:2", "tree", "hub", "induction"):
        target = build_pattern(text, 11, np.random.default_rng(0), causal)
        before = target.toarray()
        constraints = compute_necessary_logit_constraints(target, causal, wanted())
        same, opposite = query_signs.find_sign_constraints_from_key_counts(constraints)
        assert (target.toarray() == before).all()
        supports = [set(np.flatnonzero(row).tolist()) for row in before]
        for i, j in itertools.product(range(11), repeat=2):
            seen = set(range(min(i, j) + 1 if causal else 11))
            a, b = supports[i] & seen, supports[j] & seen
            asks = {i, j} <= set(constraints.rows.tolist())
            assert same[i, j] == (asks and bool(a & b) and bool(seen - a - b))
            assert opposite[i, j] == (asks and bool(a - b) and bool(b - a))


def agree(weights: np.ndarray) -> None:
    answer = decide(weights)
    assert answer.possible is brute_force(weights, wanted())
    if answer.proof is not None:
        assert contradicts(answer.proof.convert_proof_to_json(), weights)


@pytest.mark.slow
def test_all_patterns_of_three_keys_and_proofs_of_no() -> None:
    for chosen in itertools.combinations_with_replacement(supports(3), 3):
        agree(rows_of(chosen))


@pytest.mark.slow
def test_all_patterns_of_four_keys() -> None:
    """Each once: in another order the keys are the same pattern, as places on the line are free."""
    seen = set()
    for chosen in itertools.combinations_with_replacement(supports(4), 4):
        named = min(renamed(chosen, order) for order in itertools.permutations(range(4)))
        if named not in seen:
            seen.add(named)
            agree(rows_of(chosen))
    assert len(seen) == 230
    assert seen >= {((0,), (1,), (2,), (3,)), ((0, 1, 2, 3),) * 4}


def renamed(
    chosen: tuple[tuple[int, ...], ...], order: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(tuple(sorted(order[key] for key in support)) for support in chosen))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "count"), [(5, 20), (6, 8)])
def test_random_patterns(n: int, count: int) -> None:
    """`python tests/bench/approximate.py orders` goes through 2,000 of each."""
    for seed in range(count):
        rng = random.Random(seed)
        agree(rows_of(tuple(rng.choice(supports(n)) for _ in range(n))))


def any_case(
    rng: np.random.Generator, ratio: float | None = None, off: float | None = None
) -> tuple[np.ndarray, Tolerances, bool]:
    """Rows of four keys with any supports and weights, masked or not, and tolerances."""
    weights = rows_of(tuple(supports(4)[k] for k in rng.integers(15, size=4)))
    causal, even = rng.random(2) < 0.5
    weights = np.tril(weights) + np.diag(np.tril(weights).sum(axis=1) == 0) if causal else weights
    weights *= 1.0 if even else rng.uniform(0.2, 1.0, size=weights.shape)
    weights /= weights.sum(axis=1, keepdims=True)
    drawn = float(rng.uniform(0.01, 3.0)), float(rng.uniform(0.01, 0.9))
    return weights, wanted(ratio or drawn[0], off or drawn[1]), bool(causal)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 3.0), st.floats(0.01, 0.9), st.integers(0, 10**6))
@example(2.0, 0.25, 180)  # two gaps that each want to be the larger, and grow slowly
def test_any_tolerances_any_weights_any_mask(ratio: float, off: float, seed: int) -> None:
    weights, asked, causal = any_case(np.random.default_rng(seed), ratio, off)
    answer = decide(weights, asked, causal=causal)
    if answer.possible is not None:  # at the edge itself nothing is said
        assert answer.possible is brute_force(weights, asked, causal)


@pytest.mark.parametrize("seed", [673, 919])
def test_gaps_against_each_other_are_refused_with_a_proof(seed: int) -> None:
    """Two rows and three: every bound of the proof is the row's own to the last digit."""
    weights, asked, _ = any_case(np.random.default_rng(seed))
    assert decide(weights, asked).possible is False


def upper(n: int) -> np.ndarray:
    made = np.triu(np.ones((n, n)))
    return made / made.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "logits"), [(4, 78), (6, 7509), (8, 725_226)])
def test_the_least_logits_of_nested_rows(n: int, logits: float) -> None:
    """Found by bisection elsewhere, and proved from below here."""
    answer = decide(upper(n))
    assert answer.least == pytest.approx(logits, rel=5e-3)
    assert answer.least_proof is not None
    assert contradicts(answer.least_proof.convert_proof_to_json(), upper(n))
    assert decide(upper(n), budget=0.99 * logits).possible is False
    assert decide(upper(n), budget=1.01 * logits).possible is True


def test_rows_beyond_the_range_of_a_type_are_refused_with_a_proof() -> None:
    """Logits grow tenfold from row to row: 40 rows are too many for float32."""
    answer = decide(upper(120), budget=3.4e38)
    assert answer.possible is False
    assert answer.proof is not None
    assert contradicts(answer.proof.convert_proof_to_json(), upper(120))
    assert decide(upper(30), budget=3.4e38).possible is True


def test_a_spoiled_proof_does_not_hold() -> None:
    from dataclasses import replace

    from attncli.maths.head_capacity.head_width_one.infeasibility_proof import (
        verify_width_one_proof,
    )

    asked = compute_necessary_logit_constraints(csr_array(upper(5)), False, wanted())
    proof = decide(upper(5), budget=100.0).proof
    assert proof is not None
    assert verify_width_one_proof(proof, asked)
    first, *rest = proof.steps
    for spoiled in (
        replace(proof, steps=tuple(rest)),
        replace(proof, steps=(first._replace(weight=first.weight + 1), *rest)),
        replace(proof, steps=(first._replace(bound=first.bound - 1.0), *rest)),
        replace(proof, budget=1e9),
        replace(proof, links=proof.links[:-1]),
        WidthOneProof(()),
    ):
        assert not verify_width_one_proof(spoiled, asked)


def test_crossing_rows_are_named() -> None:
    crossing = rows_of(((0, 1), (1, 2), (0, 1, 2, 3), (0, 1, 2, 3)))
    proof = decide(crossing).proof
    assert proof is not None
    assert proof.rows_in_proof == [0, 1]
    apart = decide(rows_of(((0,), (1,), (2,)))).proof
    assert apart is not None
    assert apart.rows_in_proof == [0, 1, 2]


def causal_window(n: int, size: int) -> np.ndarray:
    made = np.array([[float(0 <= i - j < size) for j in range(n)] for i in range(n)])
    return made / made.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_a_causal_window_is_beyond_float32(size: int) -> None:
    """Logits grow by a factor from row to row: a sum over the first rows, whose weights are 40 decades apart."""
    weights = causal_window(64, size)
    answer = decide(weights, budget=3.4e38, causal=True)
    assert answer.possible is False
    assert answer.proof is not None
    said = answer.proof.convert_proof_to_json()
    assert contradicts(said, weights)
    assert all(max(step["x"] or 0, step["y"] or 0) <= step["row"] for step in said["steps"])
    assert max(int(step["weight"]) for step in said["steps"]) > 10**40


@pytest.mark.parametrize(
    ("n", "size"),
    [(16, 2), (16, 3), pytest.param(40, 2, marks=pytest.mark.slow), pytest.param(40, 3, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_causal_window_has_places_in_float64(n: int, size: int) -> None:
    """Every pair of keys of every row, in fractions; and no less than the least that is proved."""
    weights = causal_window(n, size)
    answer = decide(weights, causal=True)
    assert answer.possible is True
    keys = [Fraction(float(key)) for key in answer.keys]
    reach = dict(zip(range(size, n), answer.reach, strict=True))
    slack, largest = Fraction(10**7 + 3, 10**7), Fraction(0)
    for i, g in reach.items():
        sign = int(answer.sign[i])
        largest = max(largest, max(abs(keys[j]) for j in range(i + 1)) / Fraction(float(g)))
        for x, y in itertools.permutations(range(i + 1), 2):
            limit = bound(weights, i, x, y)
            if limit < math.inf:
                allowed = Fraction(limit) * Fraction(float(g))
                assert sign * (keys[x] - keys[y]) <= max(allowed * slack, allowed / slack)
    assert answer.least_proof is not None
    assert contradicts(answer.least_proof.convert_proof_to_json(), weights)
    assert answer.least <= largest
