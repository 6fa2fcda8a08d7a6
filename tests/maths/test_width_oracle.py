"""No bound may be above the width of a module that is there: random modules, order types, faces of polytopes in whole numbers."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    Tolerances,
    WidthOneConstraints,
    compute_necessary_logit_constraints,
)
from attncli.maths.head_capacity.head_width_one.width_one_decision import decide_width_one
from attncli.maths.head_capacity.width_bounds_by_logit_rank import find_row_families_with_own_keys
from attncli.maths.head_capacity.width_lower_bounds import (
    bound_largest_logit_at_width,
    bound_width_by_logit_budget,
    bound_width_by_planarity,
    bound_width_by_polytope_faces,
    bound_width_by_shattering,
    bound_width_by_spectral_norm,
)

NEARLY = 1.0 + 1e-9
Asked = tuple[WidthOneConstraints, float, float]
"""What a module meets by construction, with the total variation and the largest |logit| of it."""


def met_by(logits: np.ndarray, sizes: np.ndarray, causal: bool, even: bool) -> Asked:
    """The highest keys of every row as its pattern, and just the tolerances that the module keeps."""
    n = len(logits)
    seen = np.tril(np.ones((n, n), bool)) if causal else np.ones((n, n), bool)
    shown = np.where(seen, np.exp(logits - np.where(seen, logits, -np.inf).max(axis=1)[:, None]), 0)
    shown /= shown.sum(axis=1, keepdims=True)
    ordered = np.sort(shown, axis=1)[:, ::-1]
    on = shown >= ordered[np.arange(n), np.minimum(sizes, seen.sum(axis=1)) - 1][:, None]
    target = on * (1.0 if even else shown)
    target /= target.sum(axis=1, keepdims=True)
    error = [np.ptp(np.log(shown[row][on[row]] / target[row][on[row]])) for row in range(n)]
    off = [np.where(seen[row] & ~on[row], shown[row], 0).max() / shown[row][on[row]].min() for row in range(n)]  # fmt: skip
    variation = 0.5 * np.abs(shown - target).sum(axis=1).max() * NEARLY + 1e-14
    limits = Tolerances(max(error) * NEARLY + 1e-12, math.log(max(max(off) * NEARLY, 1e-300)), float(variation))  # fmt: skip
    budget = float(np.abs(logits[seen]).max()) * NEARLY
    return (
        compute_necessary_logit_constraints(csr_array(target), causal, limits),
        float(variation),
        budget,
    )


def modules(d: int, count: int, seed: int = 0) -> Iterator[Asked]:
    """Keys and queries drawn anyhow: Gaussian, on a sphere with queries along the keys, around a simplex, a cube."""
    for number in range(count):
        rng = np.random.default_rng([seed, d, number])
        n = int(rng.integers(4, 11))
        keys, queries = rng.normal(size=(2, n, d))
        kind = rng.integers(5)
        if kind == 4:  # a cube's corners, cut through the middle
            keys = np.array(list(itertools.product((1.0, -1.0), repeat=d)))
            n = len(keys)
            queries = np.eye(d)[np.arange(n) % d]
        elif kind:
            keys /= np.linalg.norm(keys, axis=1, keepdims=True)
            queries = keys[rng.permutation(n)] + 0.1 * queries * (kind == 2)
        if kind == 3:  # rows with keys of their own, as far apart as d allows
            corners = simplex(d)
            keys = corners[np.arange(n) % (d + 1)] + 1e-3 * keys
            queries = corners[np.arange(n) % (d + 1)] + 1e-3 * queries
        scale = float(np.exp(rng.uniform(0.0, 4.0)))
        corner = np.arange(n) % (d + 1)
        same = np.bincount(corner)[corner] if kind == 3 else np.full(n, n // 2)
        size = same if kind > 2 else rng.integers(1, n, size=n)
        causal, even = rng.random(2) < 0.3
        yield met_by(scale * queries @ keys.T, size, bool(causal), bool(even))


def simplex(d: int) -> np.ndarray:
    """d + 1 unit vectors, every two at the same angle."""
    centred = np.eye(d + 1) - 1.0 / (d + 1)
    axes = np.linalg.svd(centred)[2][:d]
    return centred @ axes.T / np.linalg.norm(centred[0])


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_module_beats_a_bound(d: int) -> None:
    """And every bound is reached by one, so that a bound that says one more would be beaten."""
    highest = {"shattered": 0, "budget": 0, "spectral": 0.0, "logits": 0.0}
    for asked, variation, budget in modules(d, 70):
        said = {
            "shattered": bound_width_by_shattering(asked).d,
            "budget": bound_width_by_logit_budget(asked, budget, variation),
            "spectral": bound_width_by_spectral_norm(asked, budget, variation),
        }
        assert max(said.values()) <= d * NEARLY, said
        least = bound_largest_logit_at_width(asked, d, variation)
        assert least <= budget * NEARLY
        said["logits"] = least / budget
        highest = {name: max(highest[name], said[name]) for name in highest}
    assert highest["shattered"] == highest["budget"] == d
    assert highest["logits"] > 0.7
    assert math.ceil(highest["spectral"] - 1e-9) == d


@pytest.mark.slow
def test_no_line_is_refused_that_is_there() -> None:
    """Keys on a line are never called impossible, with or without a mask, at their own logits."""
    answers = [decide_width_one(asked, budget) for asked, _, budget in modules(1, 40, seed=1)]
    assert all(answer.possible is not False for answer in answers)
    assert sum(answer.possible is True for answer in answers) > 30


def order_types(count: int, drawn: int) -> set[frozenset[int]]:
    """Of so many points in the plane: which sets of them a straight line cuts off, for every way to place and name them."""
    rng = np.random.default_rng(0)
    found: set[frozenset[int]] = set()
    for number in range(drawn):
        points = rng.normal(size=(count, 2))
        if number % 2:  # few on the hull
            points *= rng.uniform(0.0, 1.0, size=(count, 1)) ** 3
        found.add(cut_off(points))
    names = list(itertools.permutations(range(count)))
    return {frozenset(renamed(cut, name) for cut in each) for each in found for name in names}


def cut_off(points: np.ndarray) -> frozenset[int]:
    """Sets as bits, one of a set and its complement; directions between any two at which the order of points changes."""
    i, j = np.triu_indices(len(points), 1)
    across = points[j] - points[i]
    turns = np.sort(np.arctan2(across[:, 0], -across[:, 1]) % np.pi)
    middle = 0.5 * (turns + np.append(turns[1:], turns[0] + np.pi))
    heights = np.stack([np.cos(middle), np.sin(middle)], axis=1) @ points.T
    order = np.argsort(heights, axis=1)
    ends = np.cumsum(1 << order, axis=1)[:, :-1]
    return frozenset(one_side(int(each), len(points)) for each in np.unique(ends))


def one_side(bits: int, count: int) -> int:
    return min(bits, (1 << count) - 1 - bits)


def renamed(bits: int, names: tuple[int, ...]) -> int:
    return one_side(sum(1 << name for place, name in enumerate(names) if bits >> place & 1), len(names))  # fmt: skip


def as_bits(weights: np.ndarray) -> frozenset[int]:
    n = len(weights)
    every = [one_side(sum(1 << int(key) for key in np.flatnonzero(row)), n) for row in weights]
    return frozenset(each for each in every if each)


def on_a_line(cuts: frozenset[int], n: int) -> bool:
    """Whether some order of the keys has every support at one of its ends."""
    return any(
        all(
            each in {one_side(sum(1 << k for k in order[:size]), n) for size in range(1, n)}
            for each in cuts
        )
        for order in itertools.permutations(range(n))
    )


@pytest.fixture(scope="module")
def planes() -> list[frozenset[int]]:
    """All families of five points in the plane: 3 order types, 264 ways to name their points."""
    return list(order_types(5, 400))


def test_the_order_types_of_few_points(planes: list[frozenset[int]]) -> None:
    """Goodman and Pollack: 1, 2, 3 of three, four, five points; of named ones what their symmetries leave of 5!."""
    assert len(order_types(3, 20)) == 1
    assert len(order_types(4, 200)) == 3 + 4  # which two are opposite, or which is inside
    assert len(planes) == 12 + 60 + 60


@pytest.mark.parametrize("seed", range(3))
def test_bounds_against_all_orders_and_all_order_types(
    seed: int, planes: list[frozenset[int]]
) -> None:
    """Supports alone decide whether one or two dimensions can have them at all: exactly, by going through every case."""
    rng = np.random.default_rng(seed)
    seen = {1: 0, 2: 0, 3: 0}
    for _ in range(60):
        weights = (rng.random((5, 5)) < rng.uniform(0.3, 0.7)).astype(float)
        weights[weights.sum(axis=1) == 0, 0] = 1.0
        if rng.random() < 0.3:  # one order's ends
            weights = np.triu(np.ones((5, 5)))[:, rng.permutation(5)]
        cuts = as_bits(weights)
        true = 1 if on_a_line(cuts, 5) else 2 if any(cuts <= each for each in planes) else 3
        weights /= weights.sum(axis=1, keepdims=True)
        asked = compute_necessary_logit_constraints(
            csr_array(weights), False, Tolerances(math.log(1.2), math.log(0.2), 1.0)
        )
        line_d = 2 if decide_width_one(asked, np.inf).possible is False else 1
        assert bound_width_by_shattering(asked).d <= true
        assert line_d == 2 or true == 1  # ratios can make a line impossible whose order is possible
        seen[true] += 1
    assert seen[1] > 5
    assert seen[2] > 5


def exact_faces(d: int, rng: np.random.Generator) -> np.ndarray | None:
    """Rows of even weights on the keys where a direction in whole numbers is highest: exact ratios, width d."""
    points = rng.integers(0, 3, size=(12, d))
    points = np.unique(points, axis=0)
    if len(points) < d + 1:
        return None
    directions = rng.integers(-2, 3, size=(len(points), d))
    heights = directions @ points.T
    weights = (heights == heights.max(axis=1, keepdims=True)).astype(float)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_faces_of_polytopes_in_whole_numbers(d: int) -> None:
    """Common faces and edges never ask for more than the polytope has."""
    rng = np.random.default_rng(d)
    highest = 0
    for _ in range(300):
        weights = exact_faces(d, rng)
        if weights is None:
            continue
        asked = compute_necessary_logit_constraints(
            csr_array(weights), False, Tolerances(0.0, math.log(0.5), 1.0)
        )
        chain = bound_width_by_polytope_faces(asked).d
        assert max(chain, bound_width_by_planarity(asked).d if d < 4 else 1) <= d
        highest = max(highest, chain)
    assert highest == d


def cyclic_edges(count: int) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """Any two keys on the curve (t, t², t³, t⁴) are an edge: the direction that is highest there alone, in whole numbers."""
    for a, b in itertools.combinations(range(count), 2):
        square = np.polynomial.polynomial.polyfromroots([a, a, b, b]).astype(int)
        yield (a, b), -square[1:]


def test_four_dimensions_have_every_edge_and_three_have_planar_ones() -> None:
    """The bound of 4 is reached at 4, checked by hand in whole numbers; of random solids no graph is refused."""
    t = np.arange(5)
    points = np.stack([t, t**2, t**3, t**4], axis=1)
    weights = np.zeros((10, 10))
    for row, ((a, b), direction) in enumerate(cyclic_edges(5)):
        heights = points @ direction
        assert set(np.flatnonzero(heights == heights.max())) == {a, b}
        weights[row, [a, b]] = 0.5
    asked = compute_necessary_logit_constraints(
        csr_array(weights), False, Tolerances(0.0, math.log(0.5), 1.0)
    )
    assert bound_width_by_planarity(asked).d == 4
    from scipy.spatial import ConvexHull

    for seed in range(40):
        solid = np.random.default_rng(seed).normal(size=(9, 3))
        edges = {pair for corner in ConvexHull(solid).simplices for pair in itertools.combinations(sorted(corner), 2)}  # fmt: skip
        graph = np.zeros((max(len(edges), 9),) * 2)
        for row, pair in enumerate(edges):
            graph[row, list(pair)] = 0.5
        graph[len(edges) :, 0] = 1.0
        asked = compute_necessary_logit_constraints(
            csr_array(graph), False, Tolerances(0.0, math.log(0.5), 1.0)
        )
        assert bound_width_by_planarity(asked).d == 1


def test_corners_of_a_simplex_need_their_dimension_and_no_more() -> None:
    """m rows with a key of their own, -1/d to one another: m = d + 1 keys at width d, proved and built."""
    for d in (1, 2, 3, 6):
        corners = simplex(d)
        n = d + 1
        for budget in (40.0, 8.0):
            asked, variation, largest = met_by(budget * corners @ corners.T, np.ones(n, int), False, True)  # fmt: skip
            assert largest == pytest.approx(budget)
            assert bound_width_by_logit_budget(asked, largest, variation) <= d
            (found, *_) = find_row_families_with_own_keys(asked, variation)
            assert found.rows == tuple(range(n))
            assert found.bound_largest_logit_from_below(d) <= largest
            if d in (1, 2):
                assert bound_width_by_logit_budget(asked, largest, variation) == d


def causal_case(number: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, number])
    weights = np.tril(rng.random((5, 5)) < 0.5).astype(float)
    weights[weights.sum(axis=1) == 0, 0] = 1.0
    return weights / weights.sum(axis=1, keepdims=True)


def by_all_signs(proof: dict[str, Any], weights: np.ndarray) -> bool:
    """Ten lines: whichever way every row looks, a link is broken or a case sums up to 0 < 0 for just these ways."""
    n, ratio, off = len(weights), math.log(1.2), math.log(0.2)

    def bound(row: int, x: int, y: int) -> float:
        if not weights[row, y] or max(x, y) > row:
            return math.inf
        return math.log(weights[row, x] / weights[row, y]) + ratio if weights[row, x] else off

    def contradicts(case: dict[str, Any], ways: tuple[int, ...]) -> bool:
        keys, factor, turn = np.zeros(n, object), dict.fromkeys(range(n), 0.0), set()
        for step in case["steps"]:
            row, x, y, weight = step["row"], step["x"], step["y"], int(step["weight"])
            turn.add(step["sign"] * ways[row])
            assert weight >= 0
            assert step["bound"] >= bound(row, x, y) - 1e-12
            keys[x], keys[y] = keys[x] + step["sign"] * weight, keys[y] - step["sign"] * weight
            factor[row] += weight * step["bound"]
        used = {step["row"] for step in case["steps"]}
        return len(turn) == 1 and not any(keys) and max(factor[row] for row in used) < 0

    for ways in itertools.product((1, -1), repeat=n):
        broken = False
        for link in proof["links"]:
            (i, j), (x, y), same = link["rows"], link["keys"], link["relation"] == "same"
            assert bound(i, y, x) < 0 > (bound(j, y, x) if same else bound(j, x, y))
            broken |= (ways[i] == ways[j]) is not same
        if not broken and not any(contradicts(case, ways) for case in proof["cases"]):
            return False
    return True


@pytest.mark.parametrize("number", [29, 124, 135])
def test_every_choice_of_signs_is_contradicted(number: int) -> None:
    """Proofs by cases, under a mask: gone through for all 2⁵ signs, with bounds of our own."""
    weights = causal_case(number, 2)
    limits = Tolerances(math.log(1.2), math.log(0.2), 1.0)
    answer = decide_width_one(
        compute_necessary_logit_constraints(csr_array(weights), True, limits), np.inf
    )
    assert answer.proof is not None
    said = answer.proof.convert_proof_to_json()
    assert said["kind"] == "cases"
    assert by_all_signs(said, weights)
    assert not by_all_signs(said | {"cases": []}, weights)


def test_what_is_known_of_rows_with_keys_of_their_own() -> None:
    """Blocks of 8 keys: closed forms of the leak and the gap; and no map within them has a lower rank than is said."""
    weights = np.kron(np.eye(4), np.full((8, 8), 0.125))
    asked = compute_necessary_logit_constraints(
        csr_array(weights), False, Tolerances(math.log(1.2), math.log(0.2), 0.01)
    )
    found = find_row_families_with_own_keys(asked, 0.01)[0]
    leak = 0.01 / (0.125 - 0.01)
    assert (len(found.rows), found.group) == (4, 8)
    assert found.leak == pytest.approx(leak)
    assert found.gap == pytest.approx(math.log(8 / leak))
    rng, budget = np.random.default_rng(0), 8.0
    for degree, cut in itertools.product(
        (1, 2, 3), found.list_candidate_logit_thresholds(budget)[::8]
    ):
        said = found.bound_logit_matrix_rank(degree, float(cut), budget)
        middle, half = budget + 0.5 * cut, budget - 0.5 * cut
        for _ in range(60):
            share = rng.dirichlet(np.full(3, rng.uniform(0.05, 2.0))) * rng.uniform(0.01, 1.0)
            x = np.clip(np.log(share * leak / 8 + 1e-300), -2 * budget, None)
            if (8 * np.exp(x)).sum() > leak:
                continue
            chebyshev = np.cos(degree * np.emath.arccos((x + middle) / half)).real
            at_zero = np.cos(degree * np.emath.arccos(middle / half)).real
            assert said <= 4 / (1 + ((chebyshev / at_zero) ** 2).sum()) * NEARLY
