"""Starting points for keys: arrangements that suit ordered patterns, and the pattern's spectrum.

Keys on a ring or an arc put neighbours close together, and one feature that alternates along the order separates a key
from the next: with (cos t, sin t, (-1)^j) a window of three keys needs d = 3 at every length. The order is that of the
tokens, or the pattern's own (seriation: the second eigenvector of the Laplacian of keys that are attended to together).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import FitRequest, FittedModule, make_fitted_module
from attncli.fits._newton_query_optimisation import optimise_queries_for_keys
from attncli.fits._verify_fit import FitEvidence, measure_fit
from attncli.maths.dtype_rounding import round_to_dtype

Array = NDArray[np.float64]

SERIATED = 1024
"""Tokens up to which the pattern's own order is looked for: n³ operations."""
WIDEST_ARRANGED = 8
"""Features above which arrangements have nothing that the spectrum has not."""
SAMPLED, ENOUGH = 24, 0.9
"""Rows that are tried first, and the share of them that must be served before the rest are."""
DEPTH = 6.0
"""How far below the support the rest lies in the matrix whose spectrum is taken."""
NOISE = 0.5
"""Size of the random part relative to the spectrum: seeds differ, and patterns without a spectrum start at random."""
POWERS = 8


def iter_modules_of_arranged_keys(
    target: csr_array, request: FitRequest
) -> Iterator[tuple[FittedModule, FitEvidence]]:
    """Iterate over modules with arranged keys and each row's best query, where these meet the request in nearly all
    rows."""
    if not 1 < request.d <= WIDEST_ARRANGED:
        return
    for keys in iter_key_arrangements(target, request.d):
        own = round_to_dtype(keys, request.dtype).astype(np.float64)
        if not do_sampled_rows_meet_fit_request(own, target, request):
            continue
        solved = optimise_queries_for_keys(own, target, request, bold=True)
        if solved.met.all():
            fit = make_fitted_module(solved.queries, own, request.dtype, request.causal)
            yield fit, measure_fit(fit, target)


def do_sampled_rows_meet_fit_request(keys: Array, target: csr_array, request: FitRequest) -> bool:
    """Whether the request is met in a sample of rows."""
    length = target.shape[0]
    some = np.unique(np.linspace(0, length - 1, SAMPLED).astype(int))
    solved = optimise_queries_for_keys(keys, target, request, bold=True, rows=some)
    return float(solved.met[some].mean()) >= ENOUGH


def iter_key_arrangements(target: csr_array, d: int) -> Iterator[Array]:
    """Iterate over keys [token, d] of unit variance in every feature: each arrangement along each order."""
    length = target.shape[0]
    tokens = np.arange(length, dtype=float)
    orders = [tokens]
    if 2 < length <= SERIATED:
        own = order_keys_by_laplacian_eigenvector(target)
        if not np.array_equal(own, tokens) and not np.array_equal(own, tokens[::-1]):
            orders.append(own)
    for rank in orders:
        sign = 1.0 - 2.0 * (rank % 2)
        for turn in (2.0 * np.pi, np.pi):
            angle = turn * (rank + 0.5) / length
            waves = [wave(angle * m) for m in range(1, d + 1) for wave in (np.cos, np.sin)]
            yield standardise_key_features(np.stack(waves[:d], axis=1))
            yield (
                standardise_key_features(np.stack([*waves[:2], sign, *waves[2:]][:d], axis=1))
                if d > 2
                else (
                    standardise_key_features(np.stack([sign, sign * (rank - rank.mean())], axis=1))
                )
            )


def standardise_key_features(keys: Array) -> Array:
    """Subtract the mean, which softmax ignores, and scale to unit variance."""
    centred = keys - keys.mean(axis=0)
    size = centred.std(axis=0)
    result: Array = centred / np.where(size > 0.0, size, 1.0)
    return result


def order_keys_by_laplacian_eigenvector(target: csr_array) -> Array:
    """The rank of every key along the second eigenvector of the Laplacian of A^T A."""
    together = (target.T @ target).toarray()
    root = 1.0 / np.sqrt(np.maximum(together.sum(axis=1), 1e-300))
    vectors = np.linalg.eigh(together * root[:, None] * root)[1]
    rank = np.empty(len(root))
    rank[np.argsort(vectors[:, -2] * root, kind="stable")] = np.arange(len(root))
    return rank


def initialise_queries_and_keys_by_svd(
    target: csr_array, request: FitRequest, rng: np.random.Generator, spread: float
) -> Array:
    """[2, token, d]: U S^½ and V S^½ of log weights, `DEPTH` above the rest of their row, with some noise.

    Rows are centred over the keys that they see. The largest singular directions come from a few block powers.
    """
    length, d = target.shape[0], request.d
    starts, counts = target.indptr[:-1], np.diff(target.indptr)
    log_weight = np.log(target.data)
    lowest = np.repeat(np.minimum.reduceat(log_weight, starts), counts)
    raised = csr_array(
        (log_weight - lowest + DEPTH, target.indices, target.indptr), shape=target.shape
    )
    seen = np.arange(1, length + 1) if request.causal else np.full(length, length)
    mean = np.asarray(raised.sum(axis=1)).ravel() / seen

    def multiply_centred_log_weights(block: Array) -> Array:
        sums = np.cumsum(block, axis=0) if request.causal else block.sum(axis=0, keepdims=True)
        result: Array = raised @ block - mean[:, None] * sums
        return result

    def multiply_transposed_log_weights(block: Array) -> Array:
        own = mean[:, None] * block
        sums = np.cumsum(own[::-1], axis=0)[::-1] if request.causal else own.sum(0, keepdims=True)
        result: Array = raised.T @ block - sums
        return result

    drawn = rng.normal(size=(2, length, d))
    size = min(2 * d + 4, length)
    basis = np.linalg.qr(rng.normal(size=(length, size)))[0]
    for _ in range(POWERS):
        basis = np.linalg.qr(multiply_transposed_log_weights(multiply_centred_log_weights(basis)))[
            0
        ]
    left, values, right = np.linalg.svd(multiply_centred_log_weights(basis), full_matrices=False)
    root = np.sqrt(values[:d])
    both = np.zeros((2, length, d))
    both[0, :, : len(root)] = left[:, :d] * root
    both[1, :, : len(root)] = (basis @ right[:d].T) * root
    started: Array = both + NOISE * spread * drawn / d**0.25
    return started
