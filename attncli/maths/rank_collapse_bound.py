"""The paper's bound on pure attention, in its first (γ = 1) form.

    ‖res(SA(X))‖ ≤ K ‖res(X)‖³,  K = 4 β H λ / √d,  β ≥ ‖W_QK,h‖_1 ‖W_V,h W_O,h‖_{1,∞} for every head and layer,

all in ‖·‖_{1,∞}; λ bounds the Lipschitz constant of the MLP, 1 without one. Over L layers, with k = (3^L - 1)/2,

    ‖res(X_L)‖ ≤ K^k ‖res(X_0)‖^(3^L),

which says something only where ‖res(X_0)‖ < K^(-1/2), the contraction radius. Dong, Cordonnier & Loukas (2021).
"""

import math

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    Array,
    make_scaled_array,
)
from attncli.maths.matrices.matrix_norms import (
    composite_norm,
    compute_log10_matrix_norm,
    infinity_norm,
    one_norm,
)


def compute_log10_attention_bound_factor(w_q: Array, w_k: Array, w_v: Array, w_o: Array) -> float:
    """log10 of 4 β H / √d for one layer; axes as in a network file."""
    heads, _, d = w_q.shape
    sizes = [
        compute_log10_matrix_norm(make_scaled_array(w_q[head]) @ w_k[head].T, one_norm)
        + compute_log10_matrix_norm(make_scaled_array(w_v[head]) @ w_o[head], composite_norm)
        for head in range(heads)
    ]
    return max(sizes) + math.log10(4.0 * int(heads) / math.sqrt(d))


def compute_log10_mlp_lipschitz_bound(w_in: Array, w_out: Array, slope: float, skip: bool) -> float:
    """log10 λ of f(X W_in) W_out, plus X with a skip: √(λ_1 λ_∞), for an activation of at most this slope."""
    inner, outer = make_scaled_array(w_in), make_scaled_array(w_out)
    sizes = [
        compute_log10_matrix_norm(inner, norm) + compute_log10_matrix_norm(outer, norm)
        for norm in (one_norm, infinity_norm)
    ]
    return (
        math.fsum(add_skip_to_log10_bound(size + math.log10(slope), skip) for size in sizes) / 2.0
    )


def add_skip_to_log10_bound(log10_size: float, skip: bool) -> float:
    """log10(size + 1) with a skip."""
    if not skip:
        return log10_size
    return max(log10_size, 0.0) + math.log10(1.0 + 10.0 ** -abs(log10_size))


def compute_log10_collapse_bound(log10_constant: float, log10_start: float, layer: int) -> float:
    """log10 of K^((3^l - 1)/2) ‖res(X_0)‖^(3^l); ±inf where that leaves float range."""
    try:
        power = float(3**layer)
    except OverflowError:
        power = math.inf
    # In one product, so that an infinite power has a sign and no difference of infinities arises.
    return (log10_constant / 2.0 + log10_start) * power - log10_constant / 2.0
