"""The trigonometric moment curve."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import (
    Fit,
    FitRequest,
    MethodNotApplicable,
    make_fitted_module,
    pad_columns_with_zeros,
)
from attncli.fits._fitting_method_registry import method
from attncli.fits._pattern_independent_keys import (
    place_keys_on_moment_curve,
    raise_logit_levels_of_supports,
)
from attncli.fits._verify_fit import iter_blocks_of_map_rows
from attncli.maths.dtype_rounding import MANTISSA_BITS

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

MARGIN = 0.01
"""Natural-log units inside the request."""

LIMIT = 16384


@method(
    auto=1,
    needs=lambda most: 2 * most,
    at_width=(1, "cyclic"),
    competes=lambda most, d: most == 1,
    for_heads=3,
)
def cyclic(target: csr_array, request: FitRequest, rng: np.random.Generator) -> Fit:
    """Keys on the trigonometric moment curve: d = 2k for every length, exact ratios, at a logit scale ~ n^2k.

    Keys (cos t_j, sin t_j, …, cos k t_j, sin k t_j) with t_j = 2πj/n, and

        logit_i(t) = -τ_i Π_{s ∈ S_i} (1 - cos(t - t_s)) + r_i(t)

    with r_i the trigonometric interpolant of log A_i on its support; its constant term is dropped, which softmax does
    not see. The smallest τ_i that meets the request is found row by row. Our own derivation. Refused where
    the logits need more bits than the dtype has.
    """
    length = target.shape[0]
    most = int(np.diff(target.indptr).max())
    if 2 * most > request.d:
        return MethodNotApplicable(
            f"cyclic needs d = 2k = {2 * most} for rows of {most} keys, not {request.d}"
        )
    if 2 * most >= length:
        return MethodNotApplicable(f"cyclic needs more tokens than 2k = {2 * most}, not {length}")
    if length > LIMIT and most > 1:
        return MethodNotApplicable(
            f"cyclic searches n² logits at n = {length} > {LIMIT} and would need a logit scale near n^{2 * most}"
        )
    angle = 2.0 * np.pi * np.arange(length) / length
    coefficients = np.zeros((length, most + 1), dtype=np.complex128)
    for rows in iter_blocks_of_map_rows(length):
        for count in np.unique(np.diff(target.indptr[rows.start : rows.stop + 1])):
            fill_fourier_coefficients(coefficients, target, request, angle, rows, int(count))
    queries = np.stack([2.0 * coefficients[:, 1:].real, -2.0 * coefficients[:, 1:].imag], axis=2)
    queries = queries.reshape(length, 2 * most)
    refusal = refuse_imprecise_logits(queries, request, most, length)
    if refusal:
        return refusal
    keys = place_keys_on_moment_curve(length, most)
    return make_fitted_module(
        pad_columns_with_zeros(queries, request.d),
        pad_columns_with_zeros(keys, request.d),
        request.dtype,
        request.causal,
    )


def refuse_imprecise_logits(
    queries: Array, request: FitRequest, most: int, length: int
) -> MethodNotApplicable | None:
    """Refuse logits so large that their rounding exceeds the tolerance on the support."""
    scale = float(np.abs(queries).sum(axis=1).max())
    tolerance = min(request.log_ratio_tolerance, -math.log(min(request.off_support, 0.5)))
    bits = math.log2(scale / tolerance) if scale > 0.0 else 0.0
    if bits <= MANTISSA_BITS[request.dtype]:
        return None
    return MethodNotApplicable(
        f"cyclic at k = {most}, n = {length} has logits up to {scale:.1g} (~ n^2k): telling a factor "
        f"{math.exp(tolerance):.3g} apart takes {bits:.0f} bits, {request.dtype} has {MANTISSA_BITS[request.dtype]}"
    )


def fill_fourier_coefficients(
    coefficients: Complex,
    target: csr_array,
    request: FitRequest,
    angle: Array,
    rows: slice,
    count: int,
) -> None:
    """Fourier coefficients m = 0 … count of the logits of the block's rows that have `count` keys."""
    inside = np.arange(rows.start, rows.stop)
    own = inside[np.diff(target.indptr[rows.start : rows.stop + 1]) == count]
    place = target.indptr[own][:, None] + np.arange(count)
    support, targets = target.indices[place], np.log(target.data[place])
    curve = interpolate_by_least_norm_polynomial(angle[support], targets)
    height = find_smallest_logit_scale_per_row(support, targets, curve, request, angle, own)
    wells = fourier_coefficients_of_cosine_product(angle[support])
    coefficients[own, : count + 1] = -height[:, None] * wells
    coefficients[own, : curve.shape[1]] += curve


def fourier_coefficients_of_cosine_product(nodes: Array) -> Complex:
    """Coefficients m ≥ 0 of Π_s (1 - cos(t - t_s)) [row, k + 1]: real functions need no others."""
    total = np.ones((len(nodes), 1), dtype=np.complex128)
    for node in nodes.T:
        turn = np.exp(-1j * node)[:, None]
        wider = np.pad(total, ((0, 0), (1, 1)))
        wider[:, 2:] -= 0.5 * turn * total
        wider[:, :-2] -= 0.5 * turn.conj() * total
        total = wider
    return total[:, nodes.shape[1] :]


def interpolate_by_least_norm_polynomial(nodes: Array, values: Array) -> Complex:
    """Coefficients m ≥ 0 of the trigonometric polynomial of least norm through the values [row, ⌈k/2⌉ + 1].

    Degree ⌊k/2⌋, one sine more than needed for even k: the pseudo-inverse takes the smallest.
    """
    degree = nodes.shape[1] // 2
    waves = nodes[:, :, None] * np.arange(1, degree + 1)
    design = np.concatenate([np.ones((*nodes.shape, 1)), np.cos(waves), np.sin(waves)], axis=2)
    solved = (np.linalg.pinv(design, rcond=1e-13) @ values[:, :, None])[:, :, 0]
    result = solved[:, : degree + 1].astype(np.complex128)
    result[:, 1:] = 0.5 * (result[:, 1:] - 1j * solved[:, degree + 1 :])
    return result


def find_smallest_logit_scale_per_row(
    support: NDArray[np.int64],
    target: Array,
    curve: Complex,
    request: FitRequest,
    angle: Array,
    own: NDArray[np.int64],
) -> Array:
    """The smallest τ that lowers every other key enough; the product is evaluated without cancellation."""
    depth, rise = (
        np.ones((len(own), len(angle))),
        np.full((len(own), len(angle)), curve[:, :1].real),
    )
    for nodes in support.T:
        depth *= 2.0 * np.sin(0.5 * (angle - angle[nodes][:, None])) ** 2
    for m in range(1, curve.shape[1]):
        rise += 2.0 * (curve[:, m, None] * np.exp(1j * m * angle)).real
    hidden = np.zeros(depth.shape, dtype=bool)
    hidden[np.arange(len(own))[:, None], support] = True
    if request.causal:
        hidden |= np.arange(len(angle)) > own[:, None]
    depth[hidden], rise[hidden] = 1.0, -np.inf
    floor = target.min(axis=1) + math.log(request.off_support) - MARGIN
    height = np.maximum(((rise - floor[:, None]) / depth).max(axis=1), 0.0)
    return raise_logit_levels_of_supports(
        depth, rise, height, request.log_off_support_tolerance - MARGIN
    )
