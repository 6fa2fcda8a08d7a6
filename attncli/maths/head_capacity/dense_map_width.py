"""The width that one map with weights everywhere needs at least, every row within a total variation τ. Our own derivation.

No weight of such a module is further than τ from the map's, so a key more than 2τ above another in a row has the larger
logit in every one of them. Rows order their keys that way, and cut them: the bounds of `width_lower_bounds` hold.
"""

import math

import numpy as np
from scipy.sparse import csr_array

from attncli.maths.head_capacity.head_width_one.infeasibility_proof import (
    WidthOneProof,
    verify_width_one_proof,
)
from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    Array,
    Index,
    Tolerances,
    compute_necessary_logit_constraints,
    count_visible_keys_per_query,
)
from attncli.maths.head_capacity.head_width_one.query_signs import find_query_signs
from attncli.maths.head_capacity.width_lower_bounds import KeyCuts, find_largest_shattered_key_set


def bound_width_of_dense_map(weights: Array, causal: bool, variation: float) -> int:
    """A lower bound on the width of any module that shows the map [query, key] with every row within the variation."""
    cuts = find_key_splits_by_weight(
        weights, count_visible_keys_per_query(len(weights), causal), variation
    )
    sides = cuts.above.any(axis=0) & (cuts.known_sides & ~cuts.above).any(axis=0)
    line = 2 if has_contradicting_key_orders(weights, causal, variation) else 1
    return max(line, find_largest_shattered_key_set(cuts, np.flatnonzero(sides)).d)


def find_key_splits_by_weight(weights: Array, seen: Index, variation: float) -> KeyCuts:
    """For every weight above 2τ: the keys with weights at least as large, and those smaller by more than 2τ."""
    key = np.arange(weights.shape[1])
    row, at = np.nonzero((weights > 2.0 * variation) & (key < seen[:, None]))
    own, least = weights[row], weights[row, at][:, None]
    shown = key < seen[row][:, None]
    above = shown & (own >= least)
    return KeyCuts(above, above | (shown & (own < least - 2.0 * variation)), row)


def has_contradicting_key_orders(weights: Array, causal: bool, variation: float) -> bool:
    """Whether the rows' orders of keys contradict every line: a cycle of rows that force one another's signs."""
    tolerances = Tolerances(math.inf, math.inf, variation)
    constraints = compute_necessary_logit_constraints(csr_array(weights), causal, tolerances)
    odd = find_query_signs(constraints).odd if len(constraints.rows) else ()
    return bool(odd) and verify_width_one_proof(WidthOneProof(odd), constraints)
