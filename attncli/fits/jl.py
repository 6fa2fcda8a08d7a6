"""The paper's algorithm."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.errors import require_known_names
from attncli.fits._fit_request_and_module import (
    Fit,
    FitRequest,
    FittedModule,
    MethodNotApplicable,
    make_fitted_module,
)
from attncli.fits._pattern_independent_keys import scale_rows_to_unit_length
from attncli.fits._verify_fit import FitEvidence, iter_blocks_of_map_rows, measure_fit
from attncli.resource_limits import require_memory

Array = NDArray[np.float64]

PROJECTIONS = ("gaussian", "orthogonal", "sign")
FACTORS = ("svd", "codebook")
SVD_LIMIT = 2048
OFFSETS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0)
"""Multiples of the paper's log((1 + ε2) / ε1) that are tried: the logit scale is left free."""


def jl(
    target: csr_array,
    request: FitRequest,
    rng: np.random.Generator,
    *,
    projection: str = "gaussian",
    factors: str = "svd",
    draws: int = 4,
) -> Fit:
    """The paper's construction: log targets, SVD factors, a Johnson-Lindenstrauss projection, redrawn until it fits.

    B_ij = log A_ij - log min_row + b on the support, 0 off it; B = (U S^½)(V S^½)^T; queries U S^½ G, keys V S^½ G with
    E[G G^T] = I (Likhosherstov, Choromanski and Weller 2021). `factors=codebook` takes B and I instead, with rows of G
    of unit length: queries B G, keys G. The offset b starts at log((1 + ε2) / ε1) and is left free (our own constants).
    """
    require_known_names("projection", [projection], PROJECTIONS)
    require_known_names("factors", [factors], FACTORS)
    length = target.shape[0]
    if factors == "svd" and length > SVD_LIMIT:
        return MethodNotApplicable(
            f"the SVD of n = {length} tokens takes n³ operations: use jl:factors=codebook"
        )
    if projection == "orthogonal" and request.d > length:
        return MethodNotApplicable(
            f"an orthogonal projection has d ≤ n = {length}, not {request.d}"
        )
    require_memory(
        8 * length * (request.d * 6 + (4 * length if factors == "svd" else 0)),
        f"jl at d = {request.d}",
        "choose a smaller width or length",
    )
    pairs = list(iter_factorisations_of_log_weights(target, request, factors))
    best: tuple[float, FittedModule] | None = None
    for _ in range(draws):
        drawn = sample_random_projection(projection, length, request.d, rng)
        matrix = scale_rows_to_unit_length(drawn) if factors == "codebook" else drawn
        for fit in iter_projected_modules(pairs, matrix, target, request):
            evidence = measure_fit(fit, target)
            if evidence.meets_fit_request(request):
                return fit
            excess = measure_excess_over_fit_limits(evidence, request)
            if best is None or excess < best[0]:
                best = excess, fit
    assert best is not None
    return best[1]


def measure_excess_over_fit_limits(evidence: FitEvidence, request: FitRequest) -> float:
    """How far a module is from the request: the largest quotient of an error and its limit."""
    quotients = (
        evidence.ratio_error / request.ratio_error,
        evidence.off_support_ratio / request.off_support,
        evidence.total_variation / request.total_variation,
    )
    return float(np.nan_to_num(max(quotients), nan=np.inf))


def sample_random_projection(
    projection: str, length: int, d: int, rng: np.random.Generator
) -> Array:
    """G [token, d] with E[G G^T] = I."""
    drawn: Array = rng.normal(size=(length, d)) / np.sqrt(d)
    if projection == "sign":
        drawn = np.copysign(1.0 / np.sqrt(d), drawn)
    if projection == "orthogonal":
        drawn = np.linalg.qr(drawn)[0] * np.sqrt(length / d)
    return drawn


def iter_factorisations_of_log_weights(
    target: csr_array, request: FitRequest, factors: str
) -> Iterator[tuple[Any, Any]]:
    """(left, right) with left right^T = B, one for each offset that is tried.

    Where all weights of a row are equal B is proportional to b, and one factoring serves every offset.
    """
    starts, counts = target.indptr[:-1], np.diff(target.indptr)
    log_weight = np.log(target.data)
    relative = log_weight - np.repeat(np.minimum.reduceat(log_weight, starts), counts)
    base = request.log_ratio_tolerance - np.log(request.off_support)
    for offset in OFFSETS if np.ptp(relative) > 1e-12 else (1.0,):
        shifted_target = csr_array(
            (relative + offset * base, target.indices, target.indptr), shape=target.shape
        )
        yield (
            (shifted_target, None)
            if factors == "codebook"
            else balance_svd_factors(*serialise_matrix_as_bytes(shifted_target))
        )


def serialise_matrix_as_bytes(matrix: csr_array) -> tuple[int, bytes, bytes, bytes]:
    """A sparse matrix as a hashable key: a search for the width factors the same few matrices at every probe."""
    parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
    return matrix.shape[0], parts[0].tobytes(), parts[1].tobytes(), parts[2].tobytes()


@lru_cache(maxsize=len(OFFSETS))
def balance_svd_factors(
    length: int, indptr: bytes, indices: bytes, data: bytes
) -> tuple[Array, Array]:
    """U S^½ and V S^½."""
    parts = np.frombuffer(data), np.frombuffer(indices, np.int64), np.frombuffer(indptr, np.int64)
    left, values, right = np.linalg.svd(csr_array(parts, shape=(length, length)).toarray())
    root = np.sqrt(values)
    return left * root, right.T * root


def iter_projected_modules(
    pairs: list[tuple[Array, Array]], drawn: Array, target: csr_array, request: FitRequest
) -> Iterator[FittedModule]:
    """The modules of one draw: every offset, or, with one factoring, the scales between its two conditions."""
    for left, right in pairs:
        queries, keys = left @ drawn, drawn if right is None else right @ drawn
        scales = (
            iter_logit_scales(queries, keys, target, request) if len(pairs) == 1 else np.ones(1)
        )
        for scale in scales:
            yield make_fitted_module(scale * queries, keys, request.dtype, request.causal)


def iter_logit_scales(queries: Array, keys: Array, target: csr_array, request: FitRequest) -> Array:
    """Logit scales, smallest first: (i) asks for at least ln(1/ε1) / gap, (ii) for at most ln(1 + ε2) / spread.

    Uniform weights only; the total variation may need any scale between the two.
    """
    gap, spread = np.inf, 0.0
    for rows in iter_blocks_of_map_rows(len(keys)):
        logits = queries[rows] @ keys.T
        part = target[rows]
        starts, row = part.indptr[:-1], np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        on = logits[row, part.indices]
        lowest = np.minimum.reduceat(on, starts)
        spread = max(spread, float((np.maximum.reduceat(on, starts) - lowest).max()))
        logits[row, part.indices] = -np.inf
        if request.causal:
            logits[np.arange(len(keys)) > np.arange(rows.start, rows.stop)[:, None]] = -np.inf
        gap = min(gap, float((lowest - logits.max(axis=1)).min()))
    least = -np.log(request.off_support) / gap if gap > 0.0 else 1.0
    most = request.log_ratio_tolerance / spread if spread > 0.0 else np.inf
    if not 0.0 < 1.01 * least < 0.99 * most:
        return np.array([max(least, 1e-3)])
    return np.geomspace(1.01 * least, min(0.99 * most, 16.0 * max(least, 1e-3)), 5)
