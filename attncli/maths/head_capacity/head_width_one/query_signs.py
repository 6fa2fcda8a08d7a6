"""Which rows have the same sign along the line, and which the opposite one.

Two rows that both want l_x > l_y have equal signs; where one wants l_x > l_y and the other l_y > l_x they have opposite
ones. Rows and these links are a signed graph: it can be coloured in two ways that are each other's mirror, or an odd
cycle proves that width 1 is impossible. For two supports S, T without a mask: one inside the other, equal; disjoint or
covering all keys, opposite; both (they cross), impossible.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.maths.head_capacity.head_width_one.logit_constraints import WidthOneConstraints

Flags = NDArray[np.bool_]
Counts = NDArray[np.float32]

ROWS_AT_ONCE = 256
DENSE = 0.05
"""Share of nonzeros from which on an array is faster than a sparse one."""

PAIRWISE_LIMIT = 256
"""Tokens up to which unequal weights are compared pair of keys by pair of keys; above, supports alone link rows."""


class QuerySignConstraint(NamedTuple):
    """Two rows and two keys: the first row wants l_x > l_y; the second too (same) or l_y > l_x (not)."""

    rows: tuple[int, int]
    keys: tuple[int, int]
    same: bool


class QuerySigns(NamedTuple):
    """The signs that the links imply."""

    sign: NDArray[np.int64]
    """Of every row, ±1, the first row of each component at +1; 0 for rows that ask for nothing."""
    component: NDArray[np.int64]
    parent: NDArray[np.int64]
    """The row that a row's sign was taken from; -1 for the first of a component."""
    odd: tuple[QuerySignConstraint, ...]
    """A closed walk of links that contradict one another; empty if there is none."""


def find_query_signs(constraints: WidthOneConstraints) -> QuerySigns:
    same, opposite = find_query_sign_constraints(constraints)
    crossing = np.argwhere(same & opposite)
    length = constraints.target.shape[0]
    empty = np.zeros(length, np.int64), np.full(length, -1), np.full(length, -1)
    if len(crossing):
        i, j = sorted(map(int, crossing[0]))
        return QuerySigns(
            *empty,
            (
                find_keys_relating_query_signs(constraints, i, j, True),
                find_keys_relating_query_signs(constraints, i, j, False),
            ),
        )
    return assign_query_signs(constraints, same, opposite)


def find_query_sign_constraints(constraints: WidthOneConstraints) -> tuple[Flags, Flags]:
    """[row, row]: whether two keys force equal signs on two rows, and whether two keys force opposite ones."""
    length = constraints.target.shape[0]
    same, opposite = find_sign_constraints_from_key_counts(constraints)
    crossing = bool((same & opposite).any())
    if not crossing and length <= PAIRWISE_LIMIT and not constraints.has_uniform_weights:
        order = np.zeros((length, length, length), dtype=np.float32)
        for row in constraints.rows:
            count = constraints.visible_counts[row]
            order[row, :count, :count] = constraints.find_strict_key_orders_of_row(row)
        flat, turned = order.reshape(length, -1), order.swapaxes(1, 2).reshape(length, -1)
        same, opposite = flat @ flat.T > 0.0, flat @ turned.T > 0.0
    np.fill_diagonal(same, False)
    return same, opposite


def find_sign_constraints_from_key_counts(constraints: WidthOneConstraints) -> tuple[Flags, Flags]:
    """Find links from the numbers of keys that two supports share and do not share, among keys visible to both rows.

    Block of rows by block of rows: nothing of n² numbers is held but the answers, a byte each.
    """
    length = constraints.target.shape[0]
    support = find_supports_ranked_above_others(constraints)
    keen = np.diff(support.indptr) > 0
    whole = support.toarray() if support.nnz > DENSE * length**2 else support
    same, opposite = np.zeros((2, length, length), dtype=bool)
    for start in range(0, length, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, length))
        shared, first, second = count_keys_shared_by_rows(whole, constraints.visible_counts, rows)
        rest = (
            np.minimum(constraints.visible_counts[rows, None], constraints.visible_counts)
            - shared
            - first
            - second
        )
        pair = keen[rows, None] & keen
        same[rows] = pair & (shared > 0) & (rest > 0)
        opposite[rows] = pair & (first > 0) & (second > 0)
    return same, opposite


def find_supports_ranked_above_others(constraints: WidthOneConstraints) -> csr_array:
    """1 where a row that asks for an order between its keys and all others has a key."""
    target = constraints.target
    keen = np.zeros(target.shape[0], dtype=bool)
    keen[
        [
            row
            for row in constraints.rows
            if constraints.off[constraints.slice_entries_of_row(row)].max() < 0.0
        ]
    ] = True
    weights = np.repeat(keen, np.diff(target.indptr)) & (target.data > 0.0)
    entries = weights.astype(np.float32), target.indices, target.indptr
    support = csr_array(entries, target.shape, copy=True)  # the indices are the target's own
    support.eliminate_zeros()
    return support


def count_keys_shared_by_rows(
    support: csr_array | Counts, seen: NDArray[np.intp], rows: slice
) -> tuple[Counts, Counts, Counts]:
    """[row, row] of some rows and all: how many keys both have, and how many each alone, of those both see."""
    own = support[rows] if isinstance(support, np.ndarray) else support[rows].toarray()
    shared = own @ support.T
    visible = (np.arange(support.shape[1])[:, None] < seen[rows]).astype(np.float32)
    return shared, own.cumsum(axis=1)[:, seen - 1] - shared, (support @ visible).T - shared


def find_keys_relating_query_signs(
    constraints: WidthOneConstraints, i: int, j: int, same: bool
) -> QuerySignConstraint:
    """Two keys that force the signs of two rows to be equal or opposite."""
    count = int(min(constraints.visible_counts[i], constraints.visible_counts[j]))
    on_i, on_j = (mark_keys_in_row_support(constraints, row, count) for row in (i, j))
    x = np.flatnonzero(on_i & on_j if same else on_i & ~on_j)
    y = np.flatnonzero(~on_i & ~on_j if same else on_j & ~on_i)
    for first, second in zip(x[:4], y[:4], strict=False):
        link = QuerySignConstraint((i, j), (int(first), int(second)), same)
        if is_query_sign_constraint_valid(link, constraints):
            return link
    order = constraints.find_strict_key_orders_of_row(i)[:count, :count]
    other = constraints.find_strict_key_orders_of_row(j)[:count, :count]
    first, second = np.argwhere(order & (other if same else other.T))[0]
    return QuerySignConstraint((i, j), (int(first), int(second)), same)


def mark_keys_in_row_support(constraints: WidthOneConstraints, row: int, count: int) -> Flags:
    found = np.zeros(count, dtype=bool)
    keys = constraints.list_support_keys_of_row(row)
    found[keys[keys < count]] = True
    return found


def is_query_sign_constraint_valid(
    link: QuerySignConstraint, constraints: WidthOneConstraints
) -> bool:
    """Whether both rows require the order of keys that the link claims."""
    (i, j), (x, y) = link.rows, link.keys
    other = (
        constraints.bound_logit_difference(j, y, x)
        if link.same
        else constraints.bound_logit_difference(j, x, y)
    )
    return constraints.bound_logit_difference(i, y, x) < 0.0 and other < 0.0


def assign_query_signs(
    constraints: WidthOneConstraints, same: Flags, opposite: Flags
) -> QuerySigns:
    """Assign signs breadth first, so that an odd cycle is found at its shortest."""
    length = len(same)
    sign, component = np.zeros(length, np.int64), np.full(length, -1)
    parent = np.full(length, -1)
    for number, root in enumerate(constraints.rows):
        if sign[root]:
            continue
        sign[root], component[root] = 1, number
        waiting = deque([int(root)])
        while waiting:
            row = waiting.popleft()
            pull = same[row].astype(np.int64) - opposite[row]
            fresh = np.flatnonzero((pull != 0) & (sign == 0))
            sign[fresh], component[fresh], parent[fresh] = sign[row] * pull[fresh], number, row
            waiting.extend(map(int, fresh))
            wrong = np.flatnonzero((pull != 0) & (sign * sign[row] != pull))
            if len(wrong):
                odd = find_contradictory_sign_cycle(constraints, row, int(wrong[0]), parent, same)
                return QuerySigns(sign, component, parent, odd)
    return QuerySigns(sign, component, parent, ())


def find_contradictory_sign_cycle(
    constraints: WidthOneConstraints, row: int, other: int, parent: NDArray[np.int64], same: Flags
) -> tuple[QuerySignConstraint, ...]:
    """The cycle through two rows in conflict: up to their common ancestor, down to the other row, and back over the
    violated link."""
    left, right = list_tree_ancestors_of_row(row, parent), list_tree_ancestors_of_row(other, parent)
    meeting = next(each for each in left if each in right)
    path = left[: left.index(meeting) + 1] + right[: right.index(meeting)][::-1]
    steps = zip(path, [*path[1:], path[0]], strict=True)
    return tuple(
        find_keys_relating_query_signs(constraints, a, b, bool(same[a, b])) for a, b in steps
    )


def list_tree_ancestors_of_row(row: int, parent: NDArray[np.int64]) -> list[int]:
    path = [row]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path


def list_sign_constraints_of_rows(
    constraints: WidthOneConstraints, signs: QuerySigns, rows: set[int]
) -> tuple[QuerySignConstraint, ...]:
    """Links that determine the signs of these rows relative to one another, up to one flip for each component."""
    needed = {each for row in rows for each in list_tree_ancestors_of_row(row, signs.parent)}
    made = []
    for row in sorted(needed):
        above = int(signs.parent[row])
        if above >= 0:
            made.append(
                find_keys_relating_query_signs(
                    constraints, above, row, bool(signs.sign[row] == signs.sign[above])
                )
            )
    return tuple(made)
