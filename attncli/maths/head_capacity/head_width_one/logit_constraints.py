"""Constraints on every row, as upper bounds on differences of two logits."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Tolerances(NamedTuple):
    """The tolerances between a map and its target."""

    log_ratio: float
    """ln(1 + ε2): how far two logits of the support may be off."""
    log_off: float
    """ln ε1: a logit off the support over one on it."""
    variation: float
    """Largest ½ Σ_j |M_ij - A_ij| of a row."""


@dataclass(frozen=True)
class WidthOneConstraints:
    """Bounds of all rows on differences of logits; arrays over entries follow the target's data.

    l_x - l_y ≤ min over ceilings of above[x] - below[y]    both keys in the support
    l_x - l_y ≤ off[y]                                      x off it, y on it
    """

    target: csr_array
    visible_counts: Index
    """How many keys each query sees: all, or those up to its own."""
    ceilings: tuple[tuple[Array, Array], ...]
    off: Array
    rows: Index
    """Rows that ask for anything: an even row (q = 0) does not serve them."""

    def slice_entries_of_row(self, row: int) -> slice:
        return slice(int(self.target.indptr[row]), int(self.target.indptr[row + 1]))

    def list_support_keys_of_row(self, row: int) -> Index:
        found: Index = self.target.indices[self.slice_entries_of_row(row)]
        return found

    def bound_logit_difference(self, row: int, x: int, y: int) -> float:
        """The largest l_x - l_y; infinite without a constraint."""
        part, keys = self.slice_entries_of_row(row), self.list_support_keys_of_row(row)
        at_x, at_y = np.flatnonzero(keys == x), np.flatnonzero(keys == y)
        if not len(at_y) or max(x, y) >= self.visible_counts[row]:
            return math.inf
        if not len(at_x):
            return float(self.off[part][at_y[0]])
        pairs = ((high[part][at_x[0]], low[part][at_y[0]]) for high, low in self.ceilings)
        return float(min(high - low for high, low in pairs))

    def find_strict_key_orders_of_row(self, row: int) -> NDArray[np.bool_]:
        """[x, y]: whether the row requires l_x > l_y."""
        count, part, keys = (
            int(self.visible_counts[row]),
            self.slice_entries_of_row(row),
            self.list_support_keys_of_row(row),
        )
        order = np.zeros((count, count), dtype=bool)
        hidden = np.ones(count, dtype=bool)
        hidden[keys] = False
        order[np.ix_(keys[self.off[part] < 0.0], np.flatnonzero(hidden))] = True
        for high, low in self.ceilings:  # l_x - l_y ≤ negative: y above x
            order[np.ix_(keys, keys)] |= (high[part][:, None] - low[part][None, :] < 0.0).T
        return order

    def select_constraints_of_rows(self, rows: Index) -> "WidthOneConstraints":
        """The constraints of these rows alone, which are weaker."""
        return replace(self, rows=rows)

    @property
    def has_uniform_weights(self) -> bool:
        """Whether every constrained row has equal weights, and every bound off the support forces a strict order."""
        return all(
            np.ptp(self.target.data[self.slice_entries_of_row(row)]) < 1e-12
            and self.off[self.slice_entries_of_row(row)].max() < 0.0
            for row in self.rows
        )

    @property
    def has_masked_keys(self) -> bool:
        return bool((self.visible_counts < self.target.shape[0]).any())


def compute_necessary_logit_constraints(
    target: csr_array, causal: bool, tolerances: Tolerances
) -> WidthOneConstraints:
    """Bounds that every map within the tolerances satisfies: if they are contradictory, no such map exists.

    From the total variation τ: no weight is further than τ from its target, so that M_x / M_y ≤ (A_x + τ) / (A_y - τ).
    """
    log_weight = np.log(target.data)
    ceilings = [(log_weight, log_weight - tolerances.log_ratio)]
    tau = tolerances.variation
    off = np.full(len(target.data), tolerances.log_off)
    large = target.data > tau
    if large.any():
        rest = np.where(large, target.data - tau, 1.0)
        high = np.log(np.minimum(target.data + tau, 1.0))
        ceilings.append((high, np.where(large, np.log(rest), -np.inf)))
        off = np.where(large, np.minimum(off, math.log(tau) - np.log(rest)), off)
    seen = count_visible_keys_per_query(target.shape[0], causal)
    return WidthOneConstraints(
        target,
        seen,
        tuple(ceilings),
        off,
        find_rows_needing_nonuniform_weights(target, seen, tolerances),
    )


def tighten_logit_constraints(
    constraints: WidthOneConstraints, spread: Array, gap: Array
) -> WidthOneConstraints:
    """Tighter bounds for the same rows: errors on the support within `spread` [row], keys off it at least `gap` [row]
    below."""
    counts = np.diff(constraints.target.indptr)
    log_weight = np.log(constraints.target.data)
    ceilings = ((log_weight, log_weight - np.repeat(spread, counts)),)
    return WidthOneConstraints(
        constraints.target,
        constraints.visible_counts,
        ceilings,
        np.repeat(-gap, counts),
        constraints.rows,
    )


def count_visible_keys_per_query(length: int, causal: bool) -> Index:
    return np.arange(1, length + 1) if causal else np.full(length, length)


def find_rows_needing_nonuniform_weights(
    target: csr_array, seen: Index, tolerances: Tolerances
) -> Index:
    """Rows whose target is not met by equal weights over all visible keys."""
    counts, starts = np.diff(target.indptr), target.indptr[:-1]
    log_weight = np.log(target.data)
    spread = np.maximum.reduceat(log_weight, starts) - np.minimum.reduceat(log_weight, starts)
    moved = np.abs(target.data - np.repeat(1.0 / seen, counts))
    variation = 0.5 * (np.add.reduceat(moved, starts) + (seen - counts) / seen)
    served = (spread <= tolerances.log_ratio) & (variation <= tolerances.variation)
    served &= (counts == seen) | (tolerances.log_off >= 0.0)
    return np.flatnonzero(~served)
