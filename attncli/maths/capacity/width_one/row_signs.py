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

from attncli.maths.capacity.width_one.constraints import LineConstraints

Flags = NDArray[np.bool_]

PAIRWISE_LIMIT = 256
"""Tokens up to which unequal weights are compared pair of keys by pair of keys; above, supports alone link rows."""


class SignLink(NamedTuple):
    """Two rows and two keys: the first row wants l_x > l_y; the second too (same) or l_y > l_x (not)."""

    rows: tuple[int, int]
    keys: tuple[int, int]
    same: bool


class Signs(NamedTuple):
    """The signs that the links imply."""

    sign: NDArray[np.int64]
    """Of every row, ±1, the first row of each component at +1; 0 for rows that ask for nothing."""
    component: NDArray[np.int64]
    parent: NDArray[np.int64]
    """The row that a row's sign was taken from; -1 for the first of a component."""
    odd: tuple[SignLink, ...]
    """A closed walk of links that contradict one another; empty if there is none."""


def find_signs(constraints: LineConstraints) -> Signs:
    same, opposite = find_sign_links(constraints)
    crossing = np.argwhere(same & opposite)
    length = constraints.target.shape[0]
    empty = np.zeros(length, np.int64), np.full(length, -1), np.full(length, -1)
    if len(crossing):
        i, j = sorted(map(int, crossing[0]))
        return Signs(
            *empty,
            (
                find_sign_witness(constraints, i, j, True),
                find_sign_witness(constraints, i, j, False),
            ),
        )
    return colour_rows(constraints, same, opposite)


def find_sign_links(constraints: LineConstraints) -> tuple[Flags, Flags]:
    """[row, row]: whether two keys force equal signs on two rows, and whether two keys force opposite ones."""
    length = constraints.target.shape[0]
    same, opposite = links_by_counting(constraints)
    crossing = bool((same & opposite).any())
    if length <= PAIRWISE_LIMIT and not constraints.even and not crossing:
        order = np.zeros((length, length, length), dtype=np.float32)
        for row in constraints.rows:
            count = constraints.seen[row]
            order[row, :count, :count] = constraints.strict_order(row)
        flat, turned = order.reshape(length, -1), order.swapaxes(1, 2).reshape(length, -1)
        same, opposite = flat @ flat.T > 0.0, flat @ turned.T > 0.0
    np.fill_diagonal(same, False)
    return same, opposite


def links_by_counting(constraints: LineConstraints) -> tuple[Flags, Flags]:
    """Find links from the numbers of keys that two supports share and do not share, among keys visible to both rows."""
    target, length = constraints.target, constraints.target.shape[0]
    support = (target.toarray() > 0.0).astype(np.float32)
    keen = np.zeros(length, dtype=bool)
    keen[
        [row for row in constraints.rows if constraints.off[constraints.part(row)].max() < 0.0]
    ] = True
    support[~keen] = 0.0
    both = support @ support.T
    common = np.minimum(constraints.seen[:, None], constraints.seen[None, :])
    within = np.take_along_axis(support.cumsum(axis=1), common - 1, axis=1)
    first, second = within - both, within.T - both
    rest = common - both - first - second
    pair = keen[:, None] & keen[None, :]
    return pair & (both > 0) & (rest > 0), pair & (first > 0) & (second > 0)


def find_sign_witness(constraints: LineConstraints, i: int, j: int, same: bool) -> SignLink:
    """Two keys that force the signs of two rows to be equal or opposite."""
    count = int(min(constraints.seen[i], constraints.seen[j]))
    on_i, on_j = (support_flags(constraints, row, count) for row in (i, j))
    x = np.flatnonzero(on_i & on_j if same else on_i & ~on_j)
    y = np.flatnonzero(~on_i & ~on_j if same else on_j & ~on_i)
    for first, second in zip(x[:4], y[:4], strict=False):
        link = SignLink((i, j), (int(first), int(second)), same)
        if link_holds(link, constraints):
            return link
    order = constraints.strict_order(i)[:count, :count]
    other = constraints.strict_order(j)[:count, :count]
    first, second = np.argwhere(order & (other if same else other.T))[0]
    return SignLink((i, j), (int(first), int(second)), same)


def support_flags(constraints: LineConstraints, row: int, count: int) -> Flags:
    found = np.zeros(count, dtype=bool)
    keys = constraints.keys(row)
    found[keys[keys < count]] = True
    return found


def link_holds(link: SignLink, constraints: LineConstraints) -> bool:
    """Whether both rows require the order of keys that the link claims."""
    (i, j), (x, y) = link.rows, link.keys
    other = constraints.bound(j, y, x) if link.same else constraints.bound(j, x, y)
    return constraints.bound(i, y, x) < 0.0 and other < 0.0


def colour_rows(constraints: LineConstraints, same: Flags, opposite: Flags) -> Signs:
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
                odd = find_odd_cycle(constraints, row, int(wrong[0]), parent, same)
                return Signs(sign, component, parent, odd)
    return Signs(sign, component, parent, ())


def find_odd_cycle(
    constraints: LineConstraints, row: int, other: int, parent: NDArray[np.int64], same: Flags
) -> tuple[SignLink, ...]:
    """The cycle through two rows in conflict: up to their common ancestor, down to the other row, and back over the
    violated link."""
    left, right = ancestors(row, parent), ancestors(other, parent)
    meeting = next(each for each in left if each in right)
    path = left[: left.index(meeting) + 1] + right[: right.index(meeting)][::-1]
    steps = zip(path, [*path[1:], path[0]], strict=True)
    return tuple(find_sign_witness(constraints, a, b, bool(same[a, b])) for a, b in steps)


def ancestors(row: int, parent: NDArray[np.int64]) -> list[int]:
    path = [row]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path


def tree_links(constraints: LineConstraints, signs: Signs, rows: set[int]) -> tuple[SignLink, ...]:
    """Links that determine the signs of these rows relative to one another, up to one flip for each component."""
    needed = {each for row in rows for each in ancestors(row, signs.parent)}
    made = []
    for row in sorted(needed):
        above = int(signs.parent[row])
        if above >= 0:
            made.append(
                find_sign_witness(
                    constraints, above, row, bool(signs.sign[row] == signs.sign[above])
                )
            )
    return tuple(made)
