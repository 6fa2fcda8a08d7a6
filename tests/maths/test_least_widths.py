"""Lower bounds of the width against brute force, closed forms, and patterns whose width is known."""

import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from attncli.fits import FitRequest
from attncli.fits._width_search import find_narrowest_fit
from attncli.fits.line import convert_fit_request_to_tolerances
from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    Tolerances,
    WidthOneConstraints,
    compute_necessary_logit_constraints,
)
from attncli.maths.head_capacity.width_lower_bounds import (
    LeastWidth,
    bound_largest_logit_at_width,
    bound_logits_by_spectral_norm,
    bound_width_by_logit_budget,
    bound_width_by_planarity,
    bound_width_by_polytope_faces,
    bound_width_by_shattering,
    bound_width_by_spectral_norm,
)
from attncli.patterns import build_pattern

LIMITS = Tolerances(math.log(1.2), math.log(0.2), 0.01)


def asked_of(target: csr_array, causal: bool = False) -> WidthOneConstraints:
    return compute_necessary_logit_constraints(target, causal, LIMITS)


def named(text: str, length: int, causal: bool = False) -> WidthOneConstraints:
    return asked_of(build_pattern(text, length, np.random.default_rng(0), causal), causal)


def from_rows(length: int, *supports: tuple[int, ...]) -> WidthOneConstraints:
    weights = np.full((length, length), 1.0 / length)
    for row, support in enumerate(supports):
        weights[row] = 0.0
        weights[row, list(support)] = 1.0 / len(support)
    return asked_of(csr_array(weights))


def slowly_shattered(weights: np.ndarray) -> int:
    """All sets of keys, all ways to part them, all rows."""
    n, best = len(weights), 1
    supports = [set(np.flatnonzero(row)) for row in weights if 0 < (row > 0).sum() < n]
    for size in range(1, n + 1):
        for keys in itertools.combinations(range(n), size):
            ways = {frozenset(set(keys) & support) for support in supports}
            parts = [
                frozenset(part) for k in range(1, size) for part in itertools.combinations(keys, k)
            ]
            if all(part in ways or frozenset(keys) - part in ways for part in parts):
                best = max(best, size - 1)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_shattered_keys_against_all_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.random((8, 8)) < rng.uniform(0.2, 0.6)).astype(float)
    weights[weights.sum(axis=1) == 0, 0] = 1.0
    weights /= weights.sum(axis=1, keepdims=True)
    assert bound_width_by_shattering(asked_of(csr_array(weights))).d == slowly_shattered(weights)


def test_rows_of_a_shattered_set_are_named() -> None:
    asked = named("butterfly", 64)
    found = bound_width_by_shattering(asked)
    assert found.d == 4
    ways = {
        frozenset(found.keys) & frozenset(asked.list_support_keys_of_row(row).tolist())
        for row in found.rows
    }
    halves = {min(way, frozenset(found.keys) - way, key=sorted) for way in ways}
    assert len(halves) == 2**4 - 1


@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_bound_is_above_a_width_that_is_had(d: int) -> None:
    """Supports cut out by random half-spaces of keys in d dimensions need no more than d."""
    rng = np.random.default_rng(d)
    keys = rng.normal(size=(12, d))
    heights = rng.normal(size=(12, d)) @ keys.T
    weights = np.array([row >= np.sort(row)[-rng.integers(1, 12)] for row in heights], float)
    weights /= weights.sum(axis=1, keepdims=True)
    assert bound_width_by_shattering(asked_of(csr_array(weights))).d <= d


@pytest.mark.parametrize("size", [2, 3, 5])
def test_faces_of_a_window(size: int) -> None:
    """{i} ⊂ {i, i + 1} ⊂ …: a window of w keys needs d = w where ratios are exact."""
    found = bound_width_by_polytope_faces(named(f"window:{size}", 32))
    assert found.d == size
    assert all(set(a) < set(b) for a, b in itertools.pairwise(found.chain))


def test_faces_of_a_simplex_and_of_a_polygon() -> None:
    simplex = list(itertools.combinations(range(5), 4))
    assert bound_width_by_polytope_faces(from_rows(5, *simplex)).d == 4
    polygon = [(i, (i + 1) % 7) for i in range(7)]
    assert bound_width_by_polytope_faces(from_rows(7, *polygon)).d == 2


def test_edges_that_are_not_planar() -> None:
    five = list(itertools.combinations(range(5), 2))
    assert bound_width_by_planarity(from_rows(10, *five)) == LeastWidth(4, (0, 1, 2, 3, 4))
    cube = [(a, a ^ bit) for a in range(8) for bit in (1, 2, 4) if a < a ^ bit]
    assert bound_width_by_planarity(from_rows(12, *cube)).d == 1


@pytest.mark.slow
def test_the_budget_bound_is_below_what_is_found_and_bites() -> None:
    """One key a row at logits up to 5: proved and found on either side."""
    target = build_pattern("permutation", 24, np.random.default_rng(0))
    request = FitRequest(d=1, logit_budget=5.0)
    asked = compute_necessary_logit_constraints(
        target, False, convert_fit_request_to_tolerances(request)
    )
    proved = bound_width_by_spectral_norm(asked, 5.0, 0.01)
    assert proved > 2.0
    assert proved <= bound_width_by_logit_budget(asked, 5.0, 0.01)
    found = find_narrowest_fit(target, request, [0], 24)
    assert found.fit is not None
    assert bound_width_by_logit_budget(asked, 5.0, 0.01) <= found.fit.d
    closed_form = (math.log(0.99 * 23 / 0.01) / 5.0 / (24 / 23)) ** 2
    assert proved == pytest.approx(closed_form, rel=1e-6)
    assert bound_logits_by_spectral_norm(asked, 6, 0.01) == pytest.approx(
        5.0 * math.sqrt(proved / 6)
    )
    assert bound_largest_logit_at_width(asked, 6, 0.01) >= 5.0 * math.sqrt(proved / 6)
    assert bound_width_by_spectral_norm(named("previous", 24, True), 5.0, 0.01) == 0.0
