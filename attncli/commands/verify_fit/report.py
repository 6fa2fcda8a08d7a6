"""`attn verify-fit FILE`: measure a saved fit again, from the file alone."""

from pathlib import Path

from attncli.analysis.fits.fit_rows import (
    FIT_METRICS,
    build_failed_fit_verdicts,
    build_fit_rows,
    build_fit_views,
    describe_fit_attempt,
    describe_fits,
    fit_row_keys,
)
from attncli.fits._fit_files import list_patterns_without_fitted_module, read_fits
from attncli.fits._verify_fit import measure_fit
from attncli.fits._width_search import FitAttempt, describe_missed_fit_limits
from attncli.progress import Progress, ignore_progress
from attncli.records import Finding, Report, Row


def measure_saved_fit_again(path: Path, progress: Progress = ignore_progress) -> Report:
    """Measure every pattern of a saved fit again, from the file alone."""
    fits, request = read_fits(path)
    rows: list[Row] = []
    found: list[Finding] = []
    absent = list_patterns_without_fitted_module(path)
    short = [(pattern, "the file has no module of it") for pattern in absent]
    for fit in fits:
        evidence = measure_fit(fit.module, fit.target, progress)
        met = evidence.meets_fit_request(request)
        reason = None if met else describe_missed_fit_limits(evidence, request)
        attempt = FitAttempt(fit.method, None, evidence, met, 1, 1, reason)
        short += [(fit.pattern, describe_fit_attempt(attempt))] if not met else []
        measured = build_fit_rows(fit.pattern, fit.target, attempt, request, searched=False)
        rows += [
            row for row in measured if row.metric not in ("d", "hidden", "probes", "seeds_tried")
        ]
        keys = fit_row_keys(fit.pattern, fit.method)
        hidden, d = fit.module.w_q.shape
        rows += [Row("d", d, "features", keys=keys), Row("hidden", hidden, "features", keys=keys)]
        found.append(Finding(str(keys["fit"]), describe_fit_attempt(attempt)))
    total = len(fits) + len(absent)
    return Report(
        study="approximate verify",
        headline=describe_patterns_still_shown(total, len(short), path.name),
        rows=tuple(rows),
        metrics=FIT_METRICS,
        source=describe_fits(fits, request) | {"file": path.name},
        views=build_fit_views(),
        findings=tuple(found),
        verdicts=build_failed_fit_verdicts(short),
    )


def describe_patterns_still_shown(total: int, short: int, name: str) -> str:
    """How many patterns of the file still meet their request."""
    if total == 1:
        return (
            f"The pattern in {name} {'misses' if short else 'meets'} the request it was made for."
        )
    many = f"{total - short} of {total}" if short else f"All {total}"
    return f"{many} patterns in {name} meet the request they were made for."
