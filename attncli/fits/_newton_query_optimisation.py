"""Find the best query of every row for given keys: a convex problem with d unknowns each, by batched Newton steps.

For row i with support S, wanted logits ℓ_s = log A_is, errors e_s = q·k_s - ℓ_s and their mean c, minimise

    softplus(φ(q) + 1) + μ/2 Σ_s (e_s - c)² + λ/2 ‖q‖²,    φ(q) = log Σ_{j∉S} e^{q·k_j} - c - threshold

φ is convex (a log-sum-exp minus a linear function), so all of it is. The quadratic keeps ratios on the support, φ < 0
means that what leaks off it is below the threshold of the request. λ falls step by step, and a row is frozen as soon
as it meets the request, so that logits stay near the smallest that will do. Our own derivation.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import FitRequest

Array = NDArray[np.float64]
Index = NDArray[np.intp]

FIRST_LAMBDA, LAMBDA_DECAY, LAST_LAMBDA = 1e-2, 0.6, 1e-9
STEPS, BOLD_STEPS = 40, 120
LONGEST_STEP = 4.0
"""Largest change of any logit in one Newton step: keeps the quadratic model honest."""
BOLD_SHARE = 0.5
"""Share of the largest logit so far that a step may change, where few features need large logits."""
SAFETY = {"float64": 0.98, "float32": 0.95, "bfloat16": 0.4}
"""Rows are frozen this far inside the request, so that rounding the queries and logits does not push them out."""
SINGULAR = 1e-13
"""Added to the Hessian's diagonal, in units of its largest entry."""
BLOCK = 1 << 21
"""Logits, and Hessian entries, in memory at once."""


class RowQueryProblem(NamedTuple):
    """The data of the problem that all rows share."""

    keys: Array
    """[key, d]; about unit length, which gives λ its meaning."""
    pairs: Array
    """[key, d (d + 1) / 2]: products of two features, so that all Hessians are one matrix product."""
    upper: tuple[Index, Index]
    """Which two features each column of `pairs` multiplies."""
    request: FitRequest
    stiffness: float
    """μ."""
    bold: bool = False
    """Whether logits may grow by shares of themselves."""


class RowSupports(NamedTuple):
    """The nonzeros of some rows, flat: for each its weight, row and key; `starts` is for reduceat."""

    weight: Array
    log_weight: Array
    row: Index
    key: Index
    starts: Index
    counts: Array
    query: Index
    """Which query of the whole pattern each row is."""
    entries: csr_array
    """[row, key]: where they are. `summed` writes into it, for a new matrix costs more than its product."""

    def sum_weighted_keys(self, factors: Array | float, vectors: Array) -> Array:
        """For every row, the sum of its keys' vectors, each multiplied by its factor."""
        self.entries.data[:] = factors
        result: Array = self.entries @ vectors
        return result


class NewtonState(NamedTuple):
    """Logits, losses and slopes of rows at their present queries."""

    leak: Array
    """φ + threshold: log of the off-support mass, in units of the mass on the support."""
    top: Array
    """The largest off-support logit minus c."""
    share: Array
    """[row, key]: softmax over the off-support keys."""
    error: Array
    """e_s - c, flat."""


class SolvedRows(NamedTuple):
    queries: Array
    met: NDArray[np.bool_]
    """Which rows meet the request, in float64."""


def optimise_queries_for_keys(
    keys: Array,
    target: csr_array,
    request: FitRequest,
    start: Array | None = None,
    bold: bool = False,
    rows: Index | None = None,
) -> SolvedRows:
    """Find a query for every row of the target, or for some, from `start` or from zero; `bold` for logits of any
    size."""
    length, d = keys.shape
    upper = np.triu_indices(d)
    pairs = keys[:, upper[0]] * keys[:, upper[1]]
    slack = max(min(request.log_ratio_tolerance, 2.0 * request.total_variation) / 4.0, 1e-5)
    problem = RowQueryProblem(keys, pairs, upper, request, 1.0 / slack**2, bold)
    queries = np.zeros((length, d)) if start is None else start.copy()
    met = np.zeros(length, dtype=bool)
    size = max(1, min(BLOCK // length, 2 * BLOCK // d**2))
    row_numbers = np.arange(length) if rows is None else rows
    for first in range(0, len(row_numbers), size):
        run_newton_steps(problem, target, row_numbers[first : first + size], queries, met)
    return SolvedRows(queries, met)


def run_newton_steps(
    problem: RowQueryProblem, target: csr_array, rows: Index, queries: Array, met: NDArray[np.bool_]
) -> None:
    """Take Newton steps on some rows, in place, until all meet the request or no steps are left."""
    penalty, now = FIRST_LAMBDA, queries[rows]
    least = np.full(len(rows), np.inf)
    support = list_nonzero_entries_of_rows(target, rows)
    for _ in range(BOLD_STEPS if problem.bold else STEPS):
        state = evaluate_losses_at_queries(problem, support, now)
        fine, variation = find_rows_meeting_fit_limits(problem.request, support, state)
        better = fine | (variation < least)
        queries[rows[better]] = now[better]  # a row that is never met keeps its nearest query
        met[rows[fine]] = True
        if fine.all():
            return
        now = (now + compute_newton_step(problem, support, state, now, penalty))[~fine]
        rows, least = rows[~fine], np.minimum(least, variation)[~fine]
        support = list_nonzero_entries_of_rows(target, rows) if fine.any() else support
        penalty = max(LAST_LAMBDA, LAMBDA_DECAY * penalty)


def list_nonzero_entries_of_rows(target: csr_array, rows: Index) -> RowSupports:
    part = target[rows]
    counts = np.diff(part.indptr)
    row = np.repeat(np.arange(len(rows)), counts)
    weight, key, starts = part.data.copy(), part.indices, part.indptr[:-1]
    return RowSupports(
        weight,
        np.log(weight),
        row,
        key,
        starts,
        counts=counts.astype(float),
        query=rows,
        entries=part,
    )


def evaluate_losses_at_queries(
    problem: RowQueryProblem, support: RowSupports, queries: Array
) -> NewtonState:
    logits = queries @ problem.keys.T
    error = logits[support.row, support.key] - support.log_weight
    centre = np.add.reduceat(error, support.starts) / support.counts
    logits -= centre[:, None]
    logits[support.row, support.key] = -np.inf
    if problem.request.causal:
        logits[np.arange(logits.shape[1]) > support.query[:, None]] = -np.inf
    top = logits.max(axis=1)
    base = np.where(np.isfinite(top), top, 0.0)  # no key off the support: no leak
    logits -= base[:, None]
    share = np.exp(logits, out=logits)
    total = share.sum(axis=1)
    share /= np.maximum(total, 1.0)[:, None]
    with np.errstate(divide="ignore"):  # log 0 = -inf: no leak
        leak = base + np.log(total)
    return NewtonState(leak, top, share, error - centre[support.row])


def find_rows_meeting_fit_limits(
    request: FitRequest, support: RowSupports, state: NewtonState
) -> tuple[NDArray[np.bool_], Array]:
    """Which rows meet the three conditions of the request, with a small margin, and every row's total variation."""
    safety = SAFETY[request.dtype]
    highest = np.maximum.reduceat(state.error, support.starts)
    lowest = np.minimum.reduceat(state.error, support.starts)
    weight = support.weight
    floor = np.minimum.reduceat(state.error + support.log_weight, support.starts)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN: a row that is far from the request
        on = weight * np.exp(state.error)
        off = np.exp(state.leak)
        total = np.add.reduceat(on, support.starts) + off
        moved = np.abs(on / total[support.row] - weight)
        variation = 0.5 * (np.add.reduceat(moved, support.starts) + off / total)
    fine: NDArray[np.bool_] = (
        (highest - lowest <= safety * request.log_ratio_tolerance)
        & (state.top <= floor + np.log(safety * request.off_support))
        & (variation <= safety * request.total_variation)
    )
    return fine, variation


def bound_attention_off_support(request: FitRequest, log_weight: Array, starts: Index) -> Array:
    """The leak that meets both the off-support ratio (as a sum: a little stricter) and the total variation."""
    least = np.minimum.reduceat(log_weight, starts) + np.log(request.off_support)
    result: Array = np.minimum(least, request.log_off_support_tolerance) - 0.1
    return result


def compute_newton_step(
    problem: RowQueryProblem,
    support: RowSupports,
    state: NewtonState,
    queries: Array,
    penalty: float,
) -> Array:
    """-H^-1 g for every row, shortened where a logit would move too far."""
    limit = bound_attention_off_support(problem.request, support.log_weight, support.starts)
    push = 1.0 / (1.0 + np.exp(np.minimum(limit - state.leak - 1.0, 700.0)))  # softplus'
    mean_on = support.sum_weighted_keys(1.0, problem.keys) / support.counts[:, None]
    mean_off = state.share @ problem.keys
    slope = mean_off - mean_on
    pull = problem.stiffness * support.sum_weighted_keys(state.error, problem.keys)
    gradient = push[:, None] * slope + pull + penalty * queries
    flat = push[:, None] * (state.share @ problem.pairs)
    flat += problem.stiffness * support.sum_weighted_keys(1.0, problem.pairs)
    hessian = unpack_symmetric_matrix(flat, problem.upper, queries.shape[1])
    hessian -= scale_outer_products(mean_off, push)
    hessian += scale_outer_products(slope, push * (1.0 - push))
    hessian -= scale_outer_products(mean_on, problem.stiffness * support.counts)
    diagonal = np.arange(queries.shape[1])
    curvature = hessian[:, diagonal, diagonal]
    # more keys than features: μ leaves rounding errors
    floor = SINGULAR * curvature.max(axis=1, keepdims=True)
    hessian[:, diagonal, diagonal] = curvature + penalty + floor
    step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    reach = np.abs(step @ problem.keys.T).max(axis=1)
    longest = np.full(len(reach), LONGEST_STEP)
    if problem.bold:
        longest = np.maximum(longest, BOLD_SHARE * np.abs(queries @ problem.keys.T).max(axis=1))
    result: Array = step * np.minimum(1.0, longest / np.maximum(reach, 1e-300))[:, None]
    return result


def unpack_symmetric_matrix(flat: Array, upper: tuple[Index, Index], d: int) -> Array:
    """[row, d (d + 1) / 2] → [row, d, d]."""
    full = np.empty((len(flat), d, d))
    full[:, upper[0], upper[1]] = flat
    full[:, upper[1], upper[0]] = flat
    return full


def scale_outer_products(vectors: Array, factors: Array) -> Array:
    """factor · v v^T for every row."""
    return (factors[:, None] * vectors)[:, :, None] * vectors[:, None, :]
