"""Losses as functions of all queries and keys, with gradients, for quasi-Newton steps.

`compute_likelihood_loss`: Σ_i KL(A_i ‖ M_i), which is smooth from a random start. `compute_margin_loss`: the
objective of `_newton_query_optimisation`, Σ_i softplus(φ_i + 1) + μ/2 Σ_s (e_s - c_i)², in which a row that
meets the request weighs nothing, so that the keys move for the rows that do not.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._newton_query_optimisation import bound_attention_off_support
from attncli.maths.dtype_rounding import Floats

Array = NDArray[np.float64]

MEMORY = 5
"""Pairs that L-BFGS remembers: more cost more than they save here."""
PRECISION = np.float32
"""Dtype of the logits and slopes: three times as fast, and the rows' own steps are taken in float64 afterwards."""
STIFFNESS = 1.0
"""μ: soft here, since the rows' own Newton steps settle the ratios exactly."""


class LossTarget(NamedTuple):
    """The data of the target that losses use."""

    target: csr_array
    row: NDArray[np.intp]
    counts: Array
    threshold: Array
    causal: bool
    decay: float
    """λ of λ (‖Q‖² + ‖K‖²): keeps logits from growing once the rows are separated."""


Loss = Callable[[Floats, LossTarget], tuple[float, Floats]]
"""(logits, setting) → the loss and its gradient [query, key]; may overwrite the logits."""


def prepare_target_for_loss(target: csr_array, request: FitRequest, decay: float) -> LossTarget:
    counts = np.diff(target.indptr)
    limit = bound_attention_off_support(request, np.log(target.data), target.indptr[:-1])
    row = np.repeat(np.arange(len(counts)), counts)
    return LossTarget(target, row, counts.astype(float), limit, request.causal, decay)


def minimise_loss_by_lbfgs(loss: Loss, both: Array, about: LossTarget, steps: int) -> Array:
    """L-BFGS on [queries, keys] together, shape [2, token, d]."""

    hidden = np.triu_indices(both.shape[1], 1) if about.causal else None

    def compute_value_and_gradient(flat: Array) -> tuple[float, Array]:
        queries, keys = flat.astype(PRECISION).reshape(both.shape)
        logits = queries @ keys.T
        if hidden is not None:
            logits[hidden] = -np.inf
        value, slope = loss(logits, about)
        gradient = np.stack([slope @ keys, slope.T @ queries]).ravel().astype(np.float64)
        return value + about.decay * float(flat @ flat), gradient + 2.0 * about.decay * flat

    options = {"maxcor": MEMORY, "maxiter": steps, "maxfun": 10 * steps, "ftol": 0.0, "gtol": 1e-9}
    found = minimize(
        compute_value_and_gradient, both.ravel(), jac=True, method="L-BFGS-B", options=options
    )
    result: Array = found.x.reshape(both.shape)
    return result


def compute_likelihood_loss(logits: Floats, about: LossTarget) -> tuple[float, Floats]:
    """Σ_i KL(A_i ‖ M_i) up to a constant; slope M - A."""
    place = about.row, about.target.indices
    on = logits[place]
    top = logits.max(axis=1, keepdims=True)
    logits -= top
    np.exp(logits, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    value = float((np.log(total, dtype=np.float64) + top).sum() - about.target.data @ on)
    logits /= total
    logits[place] -= about.target.data
    return value, logits


def compute_margin_loss(logits: Floats, about: LossTarget) -> tuple[float, Floats]:
    """Σ_i softplus(φ_i + 1) + μ/2 Σ_s (e_s - c_i)²; slope: the off-support softmax against the mean of the support."""
    place, starts = (about.row, about.target.indices), about.target.indptr[:-1]
    error = logits[place] - np.log(about.target.data)
    centre = np.add.reduceat(error, starts) / about.counts
    error -= centre[about.row]
    logits[place] = -np.inf
    top = np.maximum(logits.max(axis=1), -1e30)  # no key off the support: no leak
    logits -= top[:, None]
    np.exp(logits, out=logits)
    total = np.maximum(logits.sum(axis=1), 1e-30)
    leak = np.log(total, dtype=np.float64) + top - centre - about.threshold + 1.0
    loss = np.logaddexp(0.0, leak)
    push = np.exp(leak - loss)
    logits *= (push / total).astype(logits.dtype)[:, None]
    logits[place] = STIFFNESS * error - (push / about.counts)[about.row]
    return float(loss.sum() + 0.5 * STIFFNESS * (error @ error)), logits
