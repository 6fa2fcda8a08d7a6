"""Rows of `attn approximate`: the results of one method on one pattern."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array

from attncli.fits._fit_files import SavedFit
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._verify_fit import FitEvidence
from attncli.fits._width_search import FitAttempt
from attncli.maths.head_capacity import width_formulas
from attncli.records import Definition, JsonObject, Row, Scalar, Verdict, View

FIT_METRICS: Mapping[str, Definition] = {
    "length": Definition("tokens", "Queries and keys of the pattern, n."),
    "k": Definition("keys", "The largest number of keys in a row (and the theorem's k, with columns)."),
    "d": Definition("features", "Query and key width of the module."),
    "d_min": Definition("features", "The smallest width found at which the method meets the request; a search that fails proves nothing."),
    "hidden": Definition("features", "Token width the module needs: queries and keys side by side, 2d."),
    "meets": Definition("0 or 1", "Whether the rounded module meets every limit of the request."),
    "logit_scale": Definition("logit", "The largest |logit| of a visible pair."),
    "logit_bits": Definition("bits", "log2(2 · logit scale / ln(1 + ε2)): significant bits that keep logits to half the tolerance (our own definition)."),
    "ratio_error": Definition("1", "Worst factor between in-row ratios of the map and the target on the support, minus 1 (ε2)."),
    "off_support_ratio": Definition("1", "Worst map weight off the support over one on it, in the same row (ε1)."),
    "total_variation": Definition("1", "Largest ½ Σ_j |M_ij - A_ij| of a row: 0 exact, 1 disjoint."),
    "total_variation_mean": Definition("1", "Mean over the rows of ½ Σ_j |M_ij - A_ij|."),
    "sufficient_d": Definition("features", "The theorem's sufficient width at these ε1, ε2, k, n and weight ratio (constants reconstructed).", "d enough (theorem)"),
    "all_supports_d": Definition("features", "min(2k, n - 1): below it no keys serve all sets of k keys; one pattern may need less.", "d for all patterns"),
    "counting_d": Definition("features", "⌈k / 2⌉: what most patterns with k keys a row need, even with keys made for them.", "d for most patterns"),
    "fixed_keys_d": Definition("1", "ln C(n, k) / ln(1 + 2R / ln(1/ε1)): lower limit of d for unit keys that do not know the pattern, at this logit scale R.", "d of blind keys"),
    "probes": Definition("modules", "Modules made and verified."),
    "seeds_tried": Definition("seeds", "Different random seeds among them."),
    "seconds": Definition("s", "CPU time, the search included."),
}  # fmt: skip

MEASURED = (
    "ratio_error",
    "off_support_ratio",
    "total_variation",
    "total_variation_mean",
    "logit_scale",
)
COUNTED = ("tokens", "keys", "features", "0 or 1", "modules", "seeds")
"""Units whose values are whole numbers."""
MANY, DENSE = 16, 0.25
"""Keys in a row, and their share of the length, above which a pattern is called dense."""
OUT_OF_RANGE = "logits leave the range of the dtype"

PRECISION_VIEW = View("Fits, each verified after rounding", "fit", ("meets", *MEASURED))
SIZE_VIEW = View(
    title="How wide, against what is known beforehand",
    down="fit",
    metrics=("length", "k", "d", "hidden", "sufficient_d", "all_supports_d", "counting_d", "fixed_keys_d"),
)  # fmt: skip
WORDS_VIEW = View("What came of it", "fit", (), findings="finding")


def build_fit_views(*effort: str) -> tuple[View, ...]:
    """Views of the fits; `effort`: metrics of the search."""
    spent = (View("What it took", "fit", ("logit_bits", *effort)),) if effort else ()
    return (PRECISION_VIEW, SIZE_VIEW, *spent, WORDS_VIEW)


def fit_row_keys(pattern: str, method: str) -> dict[str, Scalar]:
    """The coordinates of a fit's rows."""
    return {"fit": f"{pattern} {method}", "pattern": pattern, "method": method}


def build_fit_rows(
    pattern: str, target: csr_array, attempt: FitAttempt, request: FitRequest, searched: bool
) -> Iterator[Row]:
    """All rows of one attempt; unavailable values are null with the reason."""
    keys = fit_row_keys(pattern, attempt.method)
    width = attempt.fit.d if attempt.fit else None
    values = compute_theoretical_widths(target, request)
    values |= compute_verified_fit_metrics(attempt.evidence, target, request)
    values |= {
        "d": width,
        "hidden": 2 * width if width else None,
        "meets": float(attempt.met),
        "probes": attempt.probes,
        "seeds_tried": attempt.seeds,
    }
    if searched:
        values["d_min"] = (attempt.least or width) if attempt.met else None
    for metric, definition in FIT_METRICS.items():
        if metric in values:
            yield build_fit_row(metric, values[metric], definition.unit, attempt.reason, keys)


def build_fit_row(
    metric: str, value: float | None, unit: str, reason: str | None, keys: Mapping[str, Scalar]
) -> Row:
    if value is None or not math.isfinite(value):
        return Row(metric, None, unit, note=reason or OUT_OF_RANGE, keys=keys)
    return Row(metric, int(value) if unit in COUNTED else float(value), unit, keys=keys)


def compute_theoretical_widths(target: csr_array, request: FitRequest) -> dict[str, float | None]:
    """Values that follow from the pattern and the request only."""
    length = target.shape[0]
    k = max_keys_per_row(target)
    theorem_k = max(k, int(np.bincount(target.indices).max()))
    sufficient = width_formulas.compute_johnson_lindenstrauss_width(
        length, theorem_k, request.ratio_error, request.off_support, max_weight_ratio(target)
    )
    return {
        "length": length,
        "k": k,
        "sufficient_d": sufficient,
        "all_supports_d": width_formulas.compute_least_width_for_all_supports(length, k),
        "counting_d": width_formulas.bound_width_by_pattern_count(k),
    }


def compute_verified_fit_metrics(
    evidence: FitEvidence | None, target: csr_array, request: FitRequest
) -> dict[str, float | None]:
    """Values from the verification."""
    if evidence is None:
        return dict.fromkeys((*MEASURED, "logit_bits", "fixed_keys_d"))
    values: dict[str, float | None] = {name: getattr(evidence, name) for name in MEASURED}
    values["logit_bits"] = evidence.count_significant_logit_bits(request.ratio_error)
    values["fixed_keys_d"] = None
    if not math.isnan(evidence.logit_scale):
        values["fixed_keys_d"] = width_formulas.compute_least_width_for_fixed_keys(
            target.shape[0], max_keys_per_row(target), request.off_support, evidence.logit_scale
        )
    return values


def max_keys_per_row(target: csr_array) -> int:
    return int(np.diff(target.indptr).max())


def max_weight_ratio(target: csr_array) -> float:
    """γ: the largest quotient of two weights of one row."""
    starts = target.indptr[:-1]
    highest = np.maximum.reduceat(target.data, starts)
    return float((highest / np.minimum.reduceat(target.data, starts)).max())


def warn_about_dense_rows(targets: Mapping[str, csr_array]) -> Iterator[str]:
    """Warn about the cost of rows with many keys, for every such pattern."""
    for pattern, target in targets.items():
        k, length = max_keys_per_row(target), target.shape[0]
        if k > MANY and k > DENSE * length:
            most = width_formulas.compute_least_width_for_all_supports(length, k)
            yield (
                f"{pattern} is dense: rows of up to k = {k} of {length} keys. Most such patterns need d ≥ "
                f"{width_formulas.bound_width_by_pattern_count(k)}, all of them d = {most}, and a search costs n² d an attempt; "
                "of a file, FILE:top=K keeps the K largest weights of a row, FILE:above=T those above T."
            )


def describe_fits(fits: Sequence[SavedFit], request: FitRequest) -> JsonObject:
    """The request, and the one module that serves all patterns."""
    limits = request.describe_fit_request()
    described: JsonObject = {"kind": "patterns", "request": limits}
    if fits:
        described["module"] = {
            "d": fits[0].module.w_q.shape[1],
            "hidden": fits[0].module.w_q.shape[0],
            "weights_sha256": hash_shared_weights(fits),
            "patterns": [fit.pattern for fit in fits],
        }
    return described


def hash_shared_weights(fits: Sequence[SavedFit]) -> str:
    """The hash of w_q and w_k, which all fits must share."""
    shared = [fit.module.w_q.tobytes() + fit.module.w_k.tobytes() for fit in fits]
    hashes = {hashlib.sha256(each).hexdigest() for each in shared}
    assert len(hashes) == 1, "patterns of one run have different weights"
    return hashes.pop()


def describe_fit_attempt(attempt: FitAttempt) -> str:
    if attempt.met:
        return "meets the request"
    return attempt.reason or "misses the request"


def build_failed_fit_verdicts(missed: Iterable[tuple[str, str]]) -> tuple[Verdict, ...]:
    """A failed verdict for each thing that misses, with by how much."""
    return tuple(Verdict(f"{what} meets the request", True, why) for what, why in missed)
