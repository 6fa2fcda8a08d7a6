"""Dual certificate on fixed keys."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import (
    Fit,
    FitRequest,
    MethodNotApplicable,
    make_fitted_module,
)
from attncli.fits._fitting_method_registry import method
from attncli.fits._pattern_independent_keys import (
    make_pattern_independent_keys,
    raise_logit_levels_of_supports,
)
from attncli.fits._verify_fit import iter_blocks_of_map_rows
from attncli.maths.dtype_rounding import Floats, round_to_dtype

Array = NDArray[np.float64]

ROOMY = 6
"""Features for each key of a row from which on logits may be smaller than those of keys made for the pattern."""
MARGIN = 0.02
"""Natural-log units inside the request, for the rounding of the finished queries."""


class RowInterpolants(NamedTuple):
    """U_S^+ 1 and U_S^+ ℓ for every row [row, d]: the query is level · flat + shape."""

    flat: Array
    shape: Array


@method(
    auto=4,
    last=True,
    fixed_keys=True,
    at_width=(2, "certificate:keys=spread"),
    competes=lambda most, d: most == 1 or d >= ROOMY * most,
    for_heads=2,
)
def certificate(
    target: csr_array, request: FitRequest, rng: np.random.Generator, *, keys: str = "gaussian"
) -> Fit:
    """Fixed unit-norm keys; the query is their pseudo-inverse on the support: exact ratios there.

    q_i = U_S^+ (c_i + log A_i), after Sanford, Hsu and Telgarsky 2023. Off the support the logit is c a_j + b_j with
    a_j, b_j free of c, and the smallest level c that meets the request is found row by row (our own derivation).
    For one key a row the logit scale is ln(1/ε1) / (1 - largest cosine of two keys): `keys=spread` follows n^{2/(d-1)}.
    """
    length = target.shape[0]
    most = int(np.diff(target.indptr).max())
    if most > request.d:
        return MethodNotApplicable(
            f"certificate interpolates each row's keys exactly: {most} keys need d ≥ {most}, not {request.d}"
        )
    chosen = round_to_dtype(
        make_pattern_independent_keys(keys, length, request.d, rng), request.dtype
    )
    parts = interpolate_logits_on_supports(chosen.astype(np.float64), target)
    if parts is None:
        return MethodNotApplicable("the keys of a row are linearly dependent: another seed may do")
    level = np.concatenate(
        [
            find_logit_levels_of_supports(chosen, parts, target, request, rows)
            for rows in iter_blocks_of_map_rows(length)
        ]
    )
    queries = level[:, None] * parts.flat + parts.shape
    return make_fitted_module(queries, chosen, request.dtype, request.causal)


def interpolate_logits_on_supports(keys: Array, target: csr_array) -> RowInterpolants | None:
    """U_S^T (U_S U_S^T)^-1 [1, ℓ], the rows of equal support size together; None where a Gram matrix is singular."""
    counts = np.diff(target.indptr)
    flat, shape = np.zeros((2, *keys.shape))
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        place = target.indptr[rows][:, None] + np.arange(count)
        own = keys[target.indices[place]]
        targets = np.stack([np.ones(place.shape), np.log(target.data[place])], axis=2)
        gram = own @ own.swapaxes(1, 2)
        if np.linalg.cond(gram).max() > 1e12:
            return None
        both = own.swapaxes(1, 2) @ np.linalg.solve(gram, targets)
        flat[rows], shape[rows] = both[:, :, 0], both[:, :, 1]
    return RowInterpolants(flat, shape)


def find_logit_levels_of_supports(
    keys: Floats, parts: RowInterpolants, target: csr_array, request: FitRequest, rows: slice
) -> Array:
    """The smallest c for which c a_j + b_j lies low enough off the support; where a_j ≥ 1 no c would do."""
    weights = target[rows]
    row = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    with np.errstate(under="ignore"):
        drop = 1.0 - parts.flat[rows].astype(keys.dtype) @ keys.T
        rise = parts.shape[rows].astype(keys.dtype) @ keys.T
    hidden = np.zeros(drop.shape, dtype=bool)
    hidden[row, weights.indices] = True
    if request.causal:
        hidden |= np.arange(drop.shape[1]) > np.arange(rows.start, rows.stop)[:, None]
    hidden |= drop <= 1e-6  # out of reach at this width; the verification will say so
    drop[hidden], rise[hidden] = 1.0, -np.inf
    least = np.minimum.reduceat(np.log(weights.data), weights.indptr[:-1])
    floor = least + np.log(request.off_support) - MARGIN
    level = np.maximum(((rise - floor[:, None]) / drop).max(axis=1), 0.0)
    return raise_logit_levels_of_supports(
        drop, rise, level.astype(np.float64), request.log_off_support_tolerance - MARGIN
    )
