"""Lower bounds on the width that a pattern needs, each with its assumptions. Our own derivations.

A row that wants some keys above others cuts them apart by a half-space. d + 2 keys in d dimensions cannot be cut in every
way (Radon), so keys that rows cut in every way bound the width at any logits. Where in-row ratios are exact, the support
of a row with equal weights is a face of the polytope of the keys: common keys of faces are faces, and of faces inside
one another each is one dimension higher; faces of two keys are edges, which in three dimensions draw a planar graph.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.maths.head_capacity.head_width_one.logit_constraints import Array, WidthOneConstraints
from attncli.maths.head_capacity.width_bounds_by_logit_rank import find_row_families_with_own_keys

Flags = NDArray[np.bool_]

SETS = 4000
"""Sets of keys that are looked at for one that rows cut in every way."""
CANDIDATES = 96
"""Keys that may be in it: more, and the first few would use up the sets."""
LARGEST_SET = 8
MOST_BOUNDED = 4096
"""Tokens up to which bounds are looked for: a norm of all rows is among them."""
MOST_FACES = 4000
"""Common keys of supports that are kept."""


class LeastWidth(NamedTuple):
    """A width below which there is no module, and the rows and keys that say so."""

    d: int
    keys: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    chain: tuple[tuple[int, ...], ...] = ()


def list_key_sets_ranked_highest(constraints: WidthOneConstraints) -> Flags:
    """[row, key]: supports of the rows that rank all of them strictly above all other keys, one row for each support."""
    keen = [
        row
        for row in constraints.rows
        if constraints.off[constraints.slice_entries_of_row(row)].max() < 0.0
    ]
    support: Flags = constraints.target.toarray()[keen] > 0.0
    return support


class KeyCuts(NamedTuple):
    """Ways in which rows split the keys into two sets."""

    above: Flags
    """[cut, key]: keys on the upper side."""
    known_sides: Flags
    """[cut, key]: keys whose side is known."""
    row: NDArray[np.int64]
    """The row of each cut."""


def bound_width_by_shattering(constraints: WidthOneConstraints) -> LeastWidth:
    """Bound the width by the largest set of keys that the rows split in every way, less one: valid at any logits, for
    these tolerances.

    Only rows that see all of the keys cut them; a cut and its mirror are one, for queries may be turned round.
    """
    above = list_key_sets_ranked_highest(constraints)
    keen = np.array(
        [
            row
            for row in constraints.rows
            if constraints.off[constraints.slice_entries_of_row(row)].max() < 0.0
        ],
        int,
    )
    if not len(keen):
        return LeastWidth(1)
    known = np.arange(above.shape[1]) < constraints.visible_counts[keen][:, None]
    proper = (
        above.any(axis=0) & ~above.all(axis=0)
        if not constraints.has_masked_keys
        else above.any(axis=0)
    )
    return find_largest_shattered_key_set(KeyCuts(above, known, keen), np.flatnonzero(proper))


def find_largest_shattered_key_set(cuts: KeyCuts, chosen: NDArray[np.intp]) -> LeastWidth:
    """Find the largest subset of the chosen keys that rows split in every way; the bound is its size less one."""
    if len(chosen) > CANDIDATES:
        chosen = chosen[np.linspace(0, len(chosen) - 1, CANDIDATES).astype(int)]
    best: tuple[int, ...] = ()
    looked, count = 0, len(cuts.row)
    start = (), np.zeros(count, np.int64), np.ones(count, dtype=bool)
    stack: list[tuple[tuple[int, ...], NDArray[np.int64], Flags]] = [start]
    while stack and looked < SETS:
        keys, code, known = stack.pop()
        if len(keys) > len(best):
            best = keys
        if len(keys) >= LARGEST_SET:
            continue
        for key in chosen[chosen > (keys[-1] if keys else -1)][::-1].tolist():
            looked += 1
            wider, sides = 2 * code + cuts.above[:, key], known & cuts.known_sides[:, key]
            if is_key_set_shattered(wider[sides], len(keys) + 1):
                stack.append(((*keys, key), wider, sides))
    return LeastWidth(max(1, len(best) - 1), best, choose_one_row_per_key_split(cuts, best))


def is_key_set_shattered(code: NDArray[np.int64], count: int) -> bool:
    """Whether the rows split `count` keys in every way into two nonempty sets."""
    whole = (1 << count) - 1
    ways = np.minimum(code, whole - code)
    return len(np.unique(ways[ways > 0])) == (1 << (count - 1)) - 1


def choose_one_row_per_key_split(cuts: KeyCuts, keys: tuple[int, ...]) -> tuple[int, ...]:
    """One row for each way in which the keys are split."""
    if len(keys) < 2:
        return ()
    at = np.array(keys)
    sure = np.flatnonzero(cuts.known_sides[:, at].all(axis=1))
    code = cuts.above[np.ix_(sure, at)] @ (1 << np.arange(len(keys)))
    ways = np.minimum(code, (1 << len(keys)) - 1 - code)
    first = {int(way): int(row) for way, row in zip(ways[::-1], cuts.row[sure][::-1], strict=True)}
    return tuple(sorted(row for way, row in first.items() if way > 0))


def list_supports_of_uniform_rows(constraints: WidthOneConstraints) -> list[frozenset[int]]:
    """Supports of rows that see all keys, need a strict order, and have equal weights."""
    found = []
    for row in constraints.rows:
        part = constraints.slice_entries_of_row(row)
        equal = np.ptp(constraints.target.data[part]) < 1e-12 and constraints.off[part].max() < 0.0
        if equal and constraints.visible_counts[row] == constraints.target.shape[0]:
            found.append(frozenset(constraints.list_support_keys_of_row(row).tolist()))
    return list(dict.fromkeys(found))


def bound_width_by_polytope_faces(constraints: WidthOneConstraints) -> LeastWidth:
    """Bound the width by the length of the longest chain of nested faces found. For exact ratios and no mask."""
    supports = list_supports_of_uniform_rows(constraints)
    faces = set(supports)
    fresh = list(supports)
    while fresh and len(faces) < MOST_FACES:
        made = {face & other for face in fresh for other in supports if face & other} - faces
        fresh = list(made)[: MOST_FACES - len(faces)]
        faces |= set(fresh)
    longest: dict[frozenset[int], tuple[frozenset[int], ...]] = {}
    for face in sorted(faces, key=lambda each: (len(each), sorted(each))):
        below = [chain for other, chain in longest.items() if other < face]
        longest[face] = (*max(below, key=len, default=()), face)
    chain = max(longest.values(), key=len, default=())
    return LeastWidth(max(1, len(chain)), chain=tuple(tuple(sorted(face)) for face in chain))


def bound_width_by_planarity(constraints: WidthOneConstraints) -> LeastWidth:
    """Return 4 where supports of two keys form a graph that is not planar, else 1. For exact ratios and no mask."""
    edges = [
        tuple(sorted(each)) for each in list_supports_of_uniform_rows(constraints) if len(each) == 2
    ]
    if len(edges) < 9:  # the smallest graph that is not planar has nine edges
        return LeastWidth(1)
    import networkx

    planar, witness = networkx.check_planarity(networkx.Graph(edges), counterexample=True)
    return LeastWidth(1) if planar else LeastWidth(4, tuple(sorted(map(int, witness.nodes))))


def bound_width_by_logit_budget(
    constraints: WidthOneConstraints, budget: float, variation: float
) -> int:
    """The width that logits up to the budget need at least: the larger of two bounds; 0 where neither applies."""
    if not math.isfinite(budget):
        return 0
    gap = max(
        (
            each.bound_width_from_below(budget)
            for each in find_row_families_with_own_keys(constraints, variation)
        ),
        default=0,
    )
    return max(gap, math.ceil(bound_width_by_spectral_norm(constraints, budget, variation) - 1e-9))


def bound_width_by_spectral_norm(
    constraints: WidthOneConstraints, budget: float, variation: float
) -> float:
    """⟨L, W⟩² / (‖W‖₂² ‖L‖_F²), a lower bound on d for logits up to the budget, without a mask.

    L is the logits with the keys' mean taken off, so its rank is at most d; W is uniform weights on every support minus uniform
    weights off it; a row's ⟨L_i, W_i⟩ is at least its gap, and ‖L‖_F at most budget · n.
    """
    if constraints.has_masked_keys:
        return 0.0
    total, witness = find_weights_of_spectral_bound(constraints, variation)
    norm = float(np.linalg.norm(witness, 2)) if witness.any() else math.inf
    return (total / (norm * budget * len(witness))) ** 2


def find_weights_of_spectral_bound(
    constraints: WidthOneConstraints, variation: float
) -> tuple[float, Array]:
    """Σ of the gaps between the mean logit on a row's support and off it, and W."""
    length = constraints.target.shape[0]
    witness = np.zeros((length, length))
    total = 0.0
    for row, gap in iter_required_logit_differences(constraints, variation):
        on = constraints.list_support_keys_of_row(row)
        witness[row] = -1.0 / (length - len(on))
        witness[row, on] = 1.0 / len(on)
        total += gap
    return total, witness


def iter_required_logit_differences(
    constraints: WidthOneConstraints, variation: float
) -> Iterator[tuple[int, float]]:
    """Iterate over rows with a lower bound on the gap between the mean logit on the support and off it.

    By the ratios: as far as every pair. By the total variation τ: the c keys off the support share at most τ, so that
    their mean logit is at most ln(τ / c), against (A - τ) on the support, whose logits are at least ln of that.
    """
    for row in constraints.rows:
        part, length = constraints.slice_entries_of_row(row), constraints.target.shape[0]
        weight, others = (
            constraints.target.data[part],
            length - len(constraints.list_support_keys_of_row(row)),
        )
        if not others:
            continue
        gap = -float(constraints.off[part].max())
        if weight.min() > variation:
            share = float(np.log(weight - variation).mean()) - math.log(variation / others)
            gap = max(gap, share)
        if gap > 0.0:
            yield int(row), gap


def bound_largest_logit_at_width(
    constraints: WidthOneConstraints, d: int, variation: float
) -> float:
    """Bound the largest |logit| at width d from below: half of a row's largest gap, or the budget at which a width
    bound exceeds d."""
    others = [
        row
        for row in constraints.rows
        if len(constraints.list_support_keys_of_row(row)) < constraints.visible_counts[row]
    ]
    half = 0.5 * max(
        (-float(constraints.off[constraints.slice_entries_of_row(row)].min()) for row in others),
        default=0.0,
    )
    gap = max(
        (
            each.bound_largest_logit_from_below(d)
            for each in find_row_families_with_own_keys(constraints, variation)
        ),
        default=0.0,
    )
    return max(
        half, gap, bound_logits_by_spectral_norm(constraints, d, variation) if others else 0.0, 0.0
    )


def bound_logits_by_spectral_norm(
    constraints: WidthOneConstraints, d: int, variation: float
) -> float:
    """Solve `bound_width_by_spectral_norm` for the logits; 0 with a mask."""
    if constraints.has_masked_keys:
        return 0.0
    total, witness = find_weights_of_spectral_bound(constraints, variation)
    norm = float(np.linalg.norm(witness, 2)) if witness.any() else math.inf
    return total / (norm * len(witness) * math.sqrt(d))
