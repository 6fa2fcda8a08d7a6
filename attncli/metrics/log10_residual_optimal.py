"""The residual to the nearest constant-row matrix in the composite norm, found numerically.

log ‖·‖_1 + log ‖·‖_∞ is minimised over the centre by quasi-Newton steps on a smoothed function whose smoothing is
lowered in stages. Any centre gives an upper bound on the minimum; the tests hold it against a linear program.
"""

import math

import numpy as np

from attncli.maths.norms import composite_norm, log10_norm
from attncli.maths.scaled import Array
from attncli.maths.split import Split
from attncli.metrics import unit

SMOOTHINGS = (0.1, 0.03, 0.01, 0.003, 0.001)


@unit("log10")
def log10_residual_optimal(state: Split) -> float:
    """log10 r as in log10_residual, but from the centre x that minimises ‖X - 1x^T‖ instead of the token mean.

    At most log10(2(1 - 1/n)) below log10_residual (our own bound).
    """
    if state.residual.is_zero():
        return -math.inf
    residual = state.residual.mantissa
    nearest = residual - nearest_centre(residual)
    return log10_norm(state.residual._replace(mantissa=nearest), composite_norm) - log10_norm(
        state.states, composite_norm
    )


def nearest_centre(matrix: Array) -> Array:
    """The row x [feature] that (nearly) minimises ‖M - 1x^T‖_{1,∞}."""
    from scipy.optimize import minimize  # 0.4 s to import, needed here alone

    centre = np.zeros(matrix.shape[1])
    for smoothing in SMOOTHINGS:
        found = minimize(smooth_log_norm, centre, (matrix, smoothing), "L-BFGS-B", jac=True).x
        centre = min(found, centre, key=lambda x: composite_norm(matrix - x))
    return centre


def smooth_log_norm(centre: Array, matrix: Array, smoothing: float) -> tuple[float, Array]:
    """Smoothed log(‖·‖_1 ‖·‖_∞) of M - 1x^T, and its gradient in x."""
    difference = matrix - centre
    size = np.sqrt(difference**2 + smoothing**2 * np.mean(matrix**2))
    column_value, column_weight = soft_maximum(size.sum(axis=0), smoothing)
    row_value, row_weight = soft_maximum(size.sum(axis=1), smoothing)
    weight = column_weight / column_value + row_weight[:, None] / row_value
    gradient = -(weight * difference / size).sum(axis=0)
    return math.log(column_value) + math.log(row_value), gradient


def soft_maximum(sums: Array, smoothing: float) -> tuple[float, Array]:
    """A smooth upper bound on the largest of the sums, and its gradient."""
    top = float(sums.max())
    temperature = smoothing * top
    weight = np.exp((sums - top) / temperature)
    return top + temperature * math.log(float(weight.sum())), weight / weight.sum()
