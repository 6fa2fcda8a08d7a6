"""Fit a narrow module to a map with weights everywhere, such as a trained head's own.

Rows may be moved by any constant, so the logits are the map's logarithms with each row's mean taken off; a singular
value decomposition truncated at d features is the start. Where it misses, keys on rings and arcs are tried (as for
patterns), then L-BFGS on the rows' likelihood, rows that are still too far away weighing more from round to round. From the
width found the search goes down, each module the start of the next, by L-BFGS on what rows exceed the limit by.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import FitRequest, FittedModule, make_fitted_module
from attncli.fits._key_initialisation import do_sampled_rows_meet_fit_request, iter_key_arrangements
from attncli.fits._newton_query_optimisation import optimise_queries_for_keys
from attncli.fits._query_key_losses import (
    PRECISION,
    Loss,
    LossTarget,
    minimise_loss_by_lbfgs,
    prepare_target_for_loss,
)
from attncli.fits._verify_fit import FitEvidence, mask_future_keys, measure_fit
from attncli.fits._width_search import bracket_smallest_working_width
from attncli.maths.dtype_rounding import Floats
from attncli.patterns._make_sparse_pattern import normalise_pattern_rows

Array = NDArray[np.float64]

ROUNDS, STEPS = 6, 40
DECAY = 1e-4
EMPHASIS = (0.5, 4.0)
"""By how much a row's weight may change from one round to the next."""
AIM = 0.6
"""Share of the limit that rows are drawn to, so that the worst ends inside it."""
DEPTHS = (700.0, 12.0)
"""Logits this far below a row's largest are raised to there before the decomposition: first none, then those that
weigh nothing and would use up its features."""
CLOSING_STEPS, ROUNDINGS = 300, (0.5, 0.2, 0.08, 0.03)
"""The last descents: by what share of the limit the absolute values in a row's variation are smoothed."""
CLOSING_AIM = 0.97
HOPELESS = 3.0
"""Times the limit that the worst row may be off for the next descent to be worth its time."""
WIDEST_RING = 4
"""Features up to which rings and arcs are tried: more, and the spectrum is as good."""
RING_SHARE = 0.4
"""Share of the limit that the sparse pattern for rings may leave out."""


class DenseMapFit(NamedTuple):
    """The module found, and its errors."""

    fit: FittedModule
    evidence: FitEvidence


def find_narrowest_dense_map_fit(
    weights: Array, causal: bool, limit: float, widest: int, dtype: str = "float32", least: int = 1
) -> DenseMapFit | None:
    """Find the narrowest module whose worst row is within `limit` in total variation; None where `widest` misses it
    too.

    `weights` [query, key]: rows sum to one. `least`: no smaller width is tried. Success is not strictly monotone in d.
    """
    target_map = TargetMap(weights, csr_array(weights), causal, limit, dtype)
    found: dict[int, DenseMapFit | None] = {}

    def is_fit_found_at_width(d: int) -> bool:
        if d not in found:
            found[d] = fit_dense_map_at_width(target_map, d)
        return found[d] is not None

    low, high = bracket_smallest_working_width(
        is_fit_found_at_width, iter_doubling_widths(min(least, widest), widest), least - 1
    )
    while high is not None and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_fit_found_at_width(middle) else (middle, high)
    best = None if high is None else found[high]
    return best and reduce_module_width(best, target_map, least)


class TargetMap(NamedTuple):
    """A map, and how close a module must come to it, row by row."""

    weights: Array
    target: csr_array
    causal: bool
    limit: float
    dtype: str

    def prepare_map_for_loss_at_width(self, d: int, decay: float) -> LossTarget:
        request = FitRequest(d=d, causal=self.causal, total_variation=self.limit)
        return prepare_target_for_loss(self.target, request, decay)


def iter_doubling_widths(first: int, widest: int) -> Iterator[int]:
    """Iterate over widths: the first, twice as wide, and so on to the widest."""
    d = first
    while d < widest:
        yield d
        d *= 2
    yield widest


def fit_dense_map_at_width(target_map: TargetMap, d: int) -> DenseMapFit | None:
    """Fit a module of width d; it counts once its rounded version is verified."""
    both = np.zeros((2, len(target_map.weights), d))
    for both in iter_initial_queries_and_keys(target_map, d):
        if (met := verify_dense_map_fit(both, target_map)) is not None:
            return met
    return minimise_likelihood_loss(both, target_map)[1]


def iter_initial_queries_and_keys(target_map: TargetMap, d: int) -> Iterator[Array]:
    """Iterate over starting points [queries, keys]: rings and arcs, then the map's own spectrum."""
    if 1 < d <= WIDEST_RING:
        yield from iter_queries_and_keys_on_rings(target_map, d)
    for depth in DEPTHS:
        yield truncate_logits_to_rank(
            centre_log_attention_weights(target_map.weights, target_map.causal, depth), d
        )


def iter_queries_and_keys_on_rings(target_map: TargetMap, d: int) -> Iterator[Array]:
    """Place keys on rings and arcs, with each row's best query for a nearby sparse pattern, if there is one."""
    sparse = sparsify_attention_rows(target_map.weights, RING_SHARE * target_map.limit)
    if np.median(np.diff(sparse.indptr)) > d:
        return
    rest = (1.0 - RING_SHARE) * target_map.limit
    request = FitRequest(d=d, causal=target_map.causal, total_variation=rest, ratio_error=1.0)
    for keys in iter_key_arrangements(sparse, d):
        if do_sampled_rows_meet_fit_request(keys, sparse, request):
            yield np.stack(
                [optimise_queries_for_keys(keys, sparse, request, bold=True).queries, keys]
            )


def sparsify_attention_rows(weights: Array, left_out: float) -> csr_array:
    """Keep the fewest keys of every row that hold all of it but `left_out`: no other pattern as near has fewer."""
    order = np.argsort(-weights, axis=1, kind="stable")
    mass = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    counts = np.minimum((mass < 1.0 - left_out).sum(axis=1) + 1, weights.shape[1])
    sparse = np.zeros(weights.shape, dtype=bool)
    np.put_along_axis(sparse, order, np.arange(weights.shape[1]) < counts[:, None], axis=1)
    return normalise_pattern_rows(csr_array(np.where(sparse, weights, 0.0)))


def minimise_likelihood_loss(
    both: Array, target_map: TargetMap
) -> tuple[Array, DenseMapFit | None]:
    """Minimise the likelihood loss; return where it ends, and the module if that meets the limit."""
    about, emphasis = (
        target_map.prepare_map_for_loss_at_width(both.shape[2], DECAY),
        np.ones(len(target_map.weights)),
    )
    for _ in range(ROUNDS):
        both = minimise_loss_by_lbfgs(
            make_row_weighted_likelihood_loss(target_map.weights, emphasis), both, about, STEPS
        )
        if (met := verify_dense_map_fit(both, target_map)) is not None:
            return both, met
        emphasis *= np.clip(
            compute_total_variation_per_row(both, target_map) / (AIM * target_map.limit), *EMPHASIS
        )
        emphasis /= emphasis.mean()
    return both, None


def minimise_excess_total_variation(both: Array, target_map: TargetMap) -> DenseMapFit | None:
    """Minimise what rows exceed the limit by, with a smaller rounding of the loss each time."""
    about = target_map.prepare_map_for_loss_at_width(both.shape[2], 0.0)
    for rounding in ROUNDINGS:
        both = minimise_loss_by_lbfgs(
            make_excess_variation_loss(target_map, rounding), both, about, CLOSING_STEPS
        )
        if (met := verify_dense_map_fit(both, target_map)) is not None:
            return met
        if (
            not compute_total_variation_per_row(both, target_map).max()
            < HOPELESS * target_map.limit
        ):
            return None
    return None


def reduce_module_width(best: DenseMapFit, target_map: TargetMap, least: int) -> DenseMapFit:
    """Narrow a module, one feature at a time."""
    while best.fit.d > least:
        below = (
            minimise_excess_total_variation(start, target_map)
            for start in iter_narrower_modules(best, target_map)
        )
        found = next((each for each in below if each is not None), None)
        if found is None:
            break
        best = found
    return best


def iter_narrower_modules(best: DenseMapFit, target_map: TargetMap) -> Iterator[Array]:
    """Iterate over starts: the module's logits without their smallest feature, then a likelihood fit from the map's
    own logits."""
    d = best.fit.d - 1
    queries, keys = np.split(best.fit.x.astype(np.float64), 2, axis=1)
    yield truncate_logits_to_rank(
        subtract_mean_of_logit_rows(queries @ keys.T, target_map.causal), d
    )
    own = centre_log_attention_weights(target_map.weights, target_map.causal, DEPTHS[-1])
    yield minimise_likelihood_loss(truncate_logits_to_rank(own, d), target_map)[0]


def centre_log_attention_weights(weights: Array, causal: bool, depth: float) -> Array:
    """ln A minus each row's mean; at most `depth` below the row's largest."""
    logits = np.log(weights, out=np.full(weights.shape, -np.inf), where=weights > 0.0)
    return subtract_mean_of_logit_rows(
        np.maximum(logits - logits.max(axis=1, keepdims=True), -depth), causal
    )


def subtract_mean_of_logit_rows(logits: Array, causal: bool) -> Array:
    """Subtract each row's mean over the visible keys; 0 where a key is hidden, as any module may have any logit
    there."""
    seen = np.ones(logits.shape, dtype=bool)
    if causal:
        seen = np.tril(seen)
    mean = np.sum(logits, axis=1, where=seen) / seen.sum(axis=1)
    return np.where(seen, logits - mean[:, None], 0.0)


def truncate_logits_to_rank(logits: Array, d: int) -> Array:
    """The nearest product of rank d, as [queries, keys], both [token, d]."""
    left, values, right = np.linalg.svd(logits)
    root = np.sqrt(values[:d])
    return np.stack([left[:, :d] * root, right[:d].T * root])


def verify_dense_map_fit(both: Array, target_map: TargetMap) -> DenseMapFit | None:
    fit = make_fitted_module(both[0], both[1], target_map.dtype, target_map.causal)
    evidence = measure_fit(fit, target_map.target)
    return DenseMapFit(fit, evidence) if evidence.total_variation <= target_map.limit else None


def compute_total_variation_per_row(both: Array, target_map: TargetMap) -> Array:
    """The total variation of every row."""
    logits = both[0] @ both[1].T
    if target_map.causal:
        mask_future_keys(logits, 0)
    made = np.exp(logits - logits.max(axis=1, keepdims=True))
    made /= made.sum(axis=1, keepdims=True)
    result: Array = 0.5 * np.abs(made - target_map.weights).sum(axis=1)
    return result


def make_excess_variation_loss(target_map: TargetMap, rounding: float) -> Loss:
    """Σ_i max(0, v_i / aim - 1)², v_i = ½ Σ_j √((M_ij - A_ij)² + δ²): never below the row's total variation."""
    weights, aim = target_map.weights.astype(PRECISION), CLOSING_AIM * target_map.limit
    square = PRECISION((2.0 * rounding * target_map.limit / weights.shape[1]) ** 2)

    def compute_loss_and_gradient(logits: Floats, about: LossTarget) -> tuple[float, Floats]:
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        difference = logits - weights
        size = np.sqrt(difference**2 + square)
        over = np.maximum(0.5 * size.sum(axis=1) / aim - 1.0, 0.0)
        slope = difference / size * (over / aim)[:, None]
        slope -= (slope * logits).sum(axis=1, keepdims=True)
        return float((over**2).sum()), logits * slope

    return compute_loss_and_gradient


def make_row_weighted_likelihood_loss(weights: Array, emphasis: Array) -> Loss:
    """Σ_i e_i KL(A_i ‖ M_i) up to a constant, for maps without zeros."""
    target, rows = weights.astype(np.float32), emphasis.astype(np.float32)
    visible = target > 0.0

    def compute_loss_and_gradient(logits: Floats, about: LossTarget) -> tuple[float, Floats]:
        logits -= logits.max(axis=1, keepdims=True)
        on = np.multiply(target, logits, out=np.zeros_like(target), where=visible).sum(axis=1)
        np.exp(logits, out=logits)
        total = logits.sum(axis=1)
        value = float(rows @ (np.log(total) - on))
        logits /= total[:, None]
        logits -= target
        logits *= rows[:, None]
        return value, logits

    return compute_loss_and_gradient
