"""The narrowest module found for a map that has weights everywhere, such as a trained head's own.

Rows may be moved by any constant, so the logits are the map's logarithms with each row's mean taken off; a singular
value decomposition truncated at d features is the start. Where it misses, L-BFGS takes over on the rows' likelihood,
and rows that are still too far away weigh more from round to round.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.fits._losses import Loss, LossSetting, descend, setting
from attncli.fits._search import bracket
from attncli.fits._types import FitRequest, FittedModule, module
from attncli.fits._verify import Evidence, hide_future, verify
from attncli.maths.rounding import Floats

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


class OwnModule(NamedTuple):
    """The module found, and what it does."""

    fit: FittedModule
    evidence: Evidence


def narrowest_module(
    weights: Array, causal: bool, limit: float, widest: int, dtype: str = "float32"
) -> OwnModule | None:
    """Of the smallest width found whose worst row is within `limit` in total variation; None where `widest` misses too.

    `weights` [query, key]: rows sum to one, every visible weight is positive. Success is not strictly monotone in d.
    """
    target = csr_array(weights)
    found: dict[int, OwnModule | None] = {}

    def probe(d: int) -> bool:
        if d not in found:
            found[d] = module_at(weights, target, causal, limit, d, dtype)
        return found[d] is not None

    low, high = bracket(probe, doubling(widest))
    while high is not None and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if probe(middle) else (middle, high)
    return None if high is None else found[high]


def doubling(widest: int) -> Iterator[int]:
    """1, 2, 4 … and the widest."""
    d = 1
    while d < widest:
        yield d
        d *= 2
    yield widest


def module_at(
    weights: Array, target: csr_array, causal: bool, limit: float, d: int, dtype: str
) -> OwnModule | None:
    """A module of width d, believed once its rounded self is verified."""
    both = np.zeros((2, len(weights), d))
    for depth in DEPTHS:
        both = truncated(centred_logits(weights, causal, depth), d)
        if (met := verified(both, target, causal, limit, dtype)) is not None:
            return met
    about = setting(target, FitRequest(d=d, causal=causal, total_variation=limit), DECAY)
    emphasis = np.ones(len(weights))
    for _ in range(ROUNDS):
        both = descend(weighted(weights, emphasis), both, about, STEPS)
        if (met := verified(both, target, causal, limit, dtype)) is not None:
            return met
        emphasis *= np.clip(row_errors(both, weights, causal) / (AIM * limit), *EMPHASIS)
        emphasis /= emphasis.mean()
    return None


def centred_logits(weights: Array, causal: bool, depth: float) -> Array:
    """ln A less each row's mean over the visible keys; 0 where a key is hidden, which any module may have there."""
    seen = np.ones(weights.shape, dtype=bool)
    if causal:
        seen = np.tril(seen)
    logits = np.log(weights, out=np.full(weights.shape, -np.inf), where=weights > 0.0)
    logits = np.maximum(logits - logits.max(axis=1, keepdims=True), -depth)
    mean = np.sum(logits, axis=1, where=seen) / seen.sum(axis=1)
    return np.where(seen, logits - mean[:, None], 0.0)


def truncated(logits: Array, d: int) -> Array:
    """[queries, keys], both [token, d]: the nearest product of rank d."""
    left, values, right = np.linalg.svd(logits)
    root = np.sqrt(values[:d])
    return np.stack([left[:, :d] * root, right[:d].T * root])


def verified(
    both: Array, target: csr_array, causal: bool, limit: float, dtype: str
) -> OwnModule | None:
    fit = module(both[0], both[1], dtype, causal)
    evidence = verify(fit, target)
    return OwnModule(fit, evidence) if evidence.total_variation <= limit else None


def row_errors(both: Array, weights: Array, causal: bool) -> Array:
    """Total variation of every row."""
    logits = both[0] @ both[1].T
    if causal:
        hide_future(logits, 0)
    made = np.exp(logits - logits.max(axis=1, keepdims=True))
    made /= made.sum(axis=1, keepdims=True)
    result: Array = 0.5 * np.abs(made - weights).sum(axis=1)
    return result


def weighted(weights: Array, emphasis: Array) -> Loss:
    """Σ_i e_i KL(A_i ‖ M_i) up to a constant, of maps without gaps."""
    wanted, rows = weights.astype(np.float32), emphasis.astype(np.float32)
    visible = wanted > 0.0

    def loss(logits: Floats, about: LossSetting) -> tuple[float, Floats]:
        logits -= logits.max(axis=1, keepdims=True)
        on = np.multiply(wanted, logits, out=np.zeros_like(wanted), where=visible).sum(axis=1)
        np.exp(logits, out=logits)
        total = logits.sum(axis=1)
        value = float(rows @ (np.log(total) - on))
        logits /= total[:, None]
        logits -= wanted
        logits *= rows[:, None]
        return value, logits

    return loss
