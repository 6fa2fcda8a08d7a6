"""Requirements of one head's own map: its sparsity, the theorem's width for it, the smallest width
found."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncli.analysis.fits.fit_rows import max_weight_ratio
from attncli.fits._dense_attention_map_fit import (
    find_narrowest_dense_map_fit,
    sparsify_attention_rows,
)
from attncli.fits._fit_request_and_module import FitRequest
from attncli.maths.head_capacity.dense_map_width import bound_width_of_dense_map
from attncli.maths.head_capacity.width_formulas import compute_johnson_lindenstrauss_width
from attncli.records import Definition

Array = NDArray[np.float64]

CLOSE = 0.05
"""Total variation up to which a map counts as reproduced, and the share of a row that sparseness leaves out."""

OWN_MAP_METRICS: Mapping[str, Definition] = {
    "k": Definition("keys", "Most keys that a row needs for 95 % of its weight."),
    "k_median": Definition("keys", "The same of the median row."),
    "k_column": Definition("queries", "Most queries that need one key for theirs."),
    "weight_ratio": Definition("1", "γ: the largest quotient of two of these weights in one row."),
    "sufficient_d": Definition("features", "The theorem's sufficient width for a pattern with such k, columns and γ at this length (constants reconstructed)."),
    "own_map_d": Definition("features", "The smallest width at which a search found a module that shows the head's own map, every row within .05 in total variation; a narrower one may exist."),
    "own_map_d_proved": Definition("features", "No module of a smaller width does so: proved, by the order in which rows want their keys (see `approximate --decide`)."),
    "own_map_logits": Definition("logit", "The largest |logit| of that module."),
    "logit_scale": Definition("logit", "Half of the largest ln(max / min) of a row's visible weights: the smallest |logit| with which any module shows exactly this map."),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MapRequirements:
    """Numbers of one map by metric name; None where a number is not available."""

    values: Mapping[str, float | None]
    reasons: Mapping[str, str]
    """Why a number is None."""


def measure_required_width_and_scale(
    weights: Array, visible: Array | None, causal: bool, widest: int, request: FitRequest
) -> MapRequirements:
    """Measure a map [query, key]; rows that a learned sink leaves below one are normalized to sum
    to one."""
    weights = weights / weights.sum(axis=1, keepdims=True)
    sparse = sparsify_attention_rows(weights, CLOSE)
    counts, columns = np.diff(sparse.indptr), np.bincount(sparse.indices)
    ratio = max_weight_ratio(sparse)
    k, k_column = int(counts.max()), int(columns.max())
    enough = compute_johnson_lindenstrauss_width(
        len(weights), max(k, k_column), request.ratio_error, request.off_support, ratio
    )
    least = bound_width_of_dense_map(weights, causal, CLOSE)
    found = (
        find_narrowest_dense_map_fit(weights, causal, CLOSE, widest, least=least)
        if least <= widest
        else None
    )
    scale = smallest_logit_scale_of_map(weights, visible)
    values: dict[str, float | None] = {
        "k": k,
        "k_median": float(np.median(counts)),
        "k_column": k_column,
        "weight_ratio": ratio,
        "sufficient_d": enough,
        "own_map_d": found and found.fit.d,
        "own_map_d_proved": least,
        "own_map_logits": found and found.evidence.logit_scale,
        "logit_scale": scale,
    }
    missed = f"not found up to d = {widest}, which proves nothing"
    reasons = {
        "own_map_d": missed,
        "own_map_logits": missed,
        "logit_scale": "a visible weight is 0 after rounding",
    }
    return MapRequirements(values, reasons)


def smallest_logit_scale_of_map(weights: Array, visible: Array | None) -> float | None:
    """Half the widest range of a row's logits: a constant may be added to each row; a row that sees
    no key has no range."""
    seen = np.ones(weights.shape, dtype=bool) if visible is None else visible.astype(bool)
    rows = seen.any(axis=1)
    least = np.min(weights[rows], axis=1, where=seen[rows], initial=np.inf)
    if not least.size or not least.min() > 0.0:
        return None
    return float(0.5 * np.log(weights[rows].max(axis=1) / least).max())
