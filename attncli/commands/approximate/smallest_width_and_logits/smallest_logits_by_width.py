"""`attn approximate --frontier`: how small the logits can be made at each width, in each dtype."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from attncli.analysis.fits.fit_rows import FIT_METRICS, build_failed_fit_verdicts, max_keys_per_row
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._fitting_method_registry import is_width_one_method, list_methods_tried_by_auto
from attncli.fits._width_search import FitAttempt, try_fit_at_width
from attncli.fits.line import convert_fit_request_to_tolerances
from attncli.maths.dtype_rounding import DTYPES
from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    compute_necessary_logit_constraints,
)
from attncli.maths.head_capacity.head_width_one.width_one_decision import decide_width_one
from attncli.maths.head_capacity.width_formulas import compute_least_width_for_fixed_keys
from attncli.maths.head_capacity.width_lower_bounds import (
    MOST_BOUNDED,
    bound_largest_logit_at_width,
)
from attncli.maths.number_format import format_number
from attncli.progress import Progress, ignore_progress
from attncli.records import NOT_APPLICABLE, Definition, Finding, Report, Row, Scalar, View

TIGHTENING = 0.7
"""After each success, the next search allows this fraction of its logit scale."""
ROUNDS = 8
NOTHING = "nothing found"
IMPOSSIBLE = NOT_APPLICABLE + "width 1 is proved impossible"
GENEROUS = 1e15
"""The first budget: finite, so that methods search for small logits from the start."""

FRONTIER_METRICS = {
    "logit_scale": Definition("logit", "The smallest verified logit scale found at this width."),
    "logits_proved": Definition("logit", "No module of this width has smaller logits, in exact arithmetic: exactly so at width 1, by gaps and ranks at others; null: width 1 is impossible.", "proved least"),
    "total_variation": FIT_METRICS["total_variation"],
    "fixed_keys_d": FIT_METRICS["fixed_keys_d"],
    "probes": FIT_METRICS["probes"],
}  # fmt: skip


def measure_logit_scale_by_width(
    pattern: str,
    target: csr_array,
    widths: Sequence[int],
    request: FitRequest,
    seeds: Sequence[int],
    dtypes: Sequence[str] = DTYPES,
    progress: Progress = ignore_progress,
) -> Report:
    """For every dtype and width the smallest logit scale at which some method meets the request."""
    rows: list[Row] = []
    found: list[Finding] = []
    total = len(dtypes) * len(widths)
    proved = {d: lower_bound_on_largest_logit(target, replace(request, d=d)) for d in widths}
    for dtype in dtypes:
        reached: dict[int, float] = {}
        for index, d in enumerate(widths):
            progress(len(found) * len(widths) + index, total, "widths")
            rounded_request = replace(request, d=d, dtype=dtype)
            best, probes, why = minimise_logits_of_fit(target, rounded_request, seeds)
            rows += build_smallest_logit_rows(target, rounded_request, best, probes, why, proved[d])
            if best is not None and best.evidence is not None:
                reached[d] = best.evidence.logit_scale
        found.append(Finding(dtype, describe_smallest_logits_by_width(reached, widths)))
    progress(total, total, "widths")
    return Report(
        study="approximate frontier",
        headline=format_smallest_logits_headline(
            f"{pattern}, {target.shape[0]} tokens", found, proved
        ),
        rows=tuple(rows),
        metrics=FRONTIER_METRICS,
        source={"kind": "patterns", "request": request.describe_fit_request()},
        input={"patterns": [pattern], "widths": list(widths), "length": target.shape[0]},
        seeds=tuple(seeds),
        views=(
            View("Smallest logit scale found", "d", ("logit_scale",), across="dtype"),
            View("No smaller ones do (proved)", "d", ("logits_proved",), across="dtype"),
        ),
        findings=tuple(found),
        warnings=(
            "the frontier is what was found: between it and what is proved nothing is known.",
        ),
        verdicts=build_failed_fit_verdicts(
            (f"{pattern} in {finding.about}", finding.text)
            for finding in found
            if finding.text.startswith(NOTHING)
        ),
    )


def lower_bound_on_largest_logit(target: csr_array, request: FitRequest) -> float | None:
    """Lower bound on the logits of any module of this width; None where no bound of width 1 exists."""
    length, d = target.shape[0], request.d
    if length > MOST_BOUNDED:
        return 0.0
    limits = convert_fit_request_to_tolerances(request)
    constraints = compute_necessary_logit_constraints(target, request.causal, limits)
    least = bound_largest_logit_at_width(constraints, d, limits.variation)
    if d > 1:
        return least
    answer = decide_width_one(constraints, np.inf)
    return None if answer.possible is False else max(least, answer.least)


def minimise_logits_of_fit(
    target: csr_array, request: FitRequest, seeds: Sequence[int]
) -> tuple[FitAttempt | None, int, str]:
    """Tighten the logit budget until no method follows."""
    best: FitAttempt | None = None
    probes, why = 0, "no method applies"
    request = replace(request, logit_budget=min(request.logit_budget, GENEROUS))
    for _ in range(ROUNDS):
        attempt, tried, reason = find_first_method_within_tolerance(target, request, seeds)
        probes += tried
        if attempt is None or attempt.evidence is None:
            return best, probes, reason
        best, why = attempt, reason
        request = replace(request, logit_budget=TIGHTENING * attempt.evidence.logit_scale)
    return best, probes, why


def find_first_method_within_tolerance(
    target: csr_array, request: FitRequest, seeds: Sequence[int]
) -> tuple[FitAttempt | None, int, str]:
    """The first method that meets the request, the modules tried, and the last reason against."""
    probes, reason = 0, "no method applies"
    # one number a key serves every width, rarely with the smallest logits: last
    for method in sorted(list_methods_tried_by_auto(), key=is_width_one_method):
        attempt = try_fit_at_width(method, target, request, seeds)
        probes += attempt.probes
        if attempt.met:
            return attempt, probes, ""
        if attempt.fit is not None:
            reason = attempt.reason or reason
    return None, probes, f"not found in {probes} probes ({reason})"


def build_smallest_logit_rows(
    target: csr_array,
    request: FitRequest,
    best: FitAttempt | None,
    probes: int,
    why: str,
    proved: float | None,
) -> Iterator[Row]:
    keys: dict[str, Scalar] = {"d": request.d, "dtype": request.dtype}
    note = None if proved is not None else IMPOSSIBLE
    yield Row("logits_proved", proved, "logit", note=note, keys=dict(keys))
    if best is None or best.evidence is None:
        yield Row("logit_scale", None, "logit", note=why, keys=keys)
    else:
        scale = best.evidence.logit_scale
        keys["method"] = best.method
        limit = compute_least_width_for_fixed_keys(
            target.shape[0], max_keys_per_row(target), request.off_support, scale
        )
        yield Row("logit_scale", scale, "logit", keys=keys)
        yield Row("total_variation", best.evidence.total_variation, "1", keys=keys)
        yield Row(
            "fixed_keys_d",
            limit if np.isfinite(limit) else None,
            FRONTIER_METRICS["fixed_keys_d"].unit,
            keys=keys,
            note=None if np.isfinite(limit) else "no logits",
        )
    yield Row("probes", float(probes), "modules", keys=keys)


def format_smallest_logits_headline(
    what: str, found: Sequence[Finding], proved: Mapping[int, float | None]
) -> str:
    """The smallest logits found, dtypes with the same numbers together; then what is proved."""
    together: dict[str, list[str]] = {}
    for finding in found:
        together.setdefault(finding.text, []).append(finding.about)
    clauses = [f"in {' and '.join(dtypes)} {text}" for text, dtypes in together.items()]
    return f"{what}: {'; '.join(clauses)}{describe_proved_logit_bounds(proved)}."


def describe_proved_logit_bounds(proved: Mapping[int, float | None]) -> str:
    """`; proved: d = 1 is impossible, at least 5.5 at d = 2, 2.3 at d = 8`: the ends of the bounds; empty where there are none."""
    clauses = [f"d = {d} is impossible" for d, least in proved.items() if least is None]
    bounds = {d: least for d, least in proved.items() if least}
    ends = dict.fromkeys([min(bounds), max(bounds)]) if bounds else {}
    least = [f"{format_number(bounds[d])} at d = {d}" for d in ends]
    clauses += [f"at least {', '.join(least)}"] if least else []
    return f"; proved: {', '.join(clauses)}" if clauses else ""


def describe_smallest_logits_by_width(reached: dict[int, float], widths: Sequence[int]) -> str:
    """`logits to 4400 at d = 2, 12 at d = 16 are enough`: the two ends of a curve, and where nothing was found."""
    if not reached:
        return f"{NOTHING} at d = {' … '.join(map(str, dict.fromkeys((min(widths), max(widths)))))}"
    ends = dict.fromkeys([min(reached), max(reached)])
    ends_text = ", ".join(f"{format_number(reached[d])} at d = {d}" for d in ends)
    missing = [str(d) for d in widths if d not in reached]
    return f"logits to {ends_text} are enough" + (
        f", {NOTHING} at d = {', '.join(missing)}" if missing else ""
    )
