"""The smallest width at which a method meets a request, and the narrowest method.

Every probe is decided by the verification of the rounded module. A search that fails proves nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from attncli.blas_threads_and_lock import limit_blas_to_one_thread
from attncli.fits._fit_request_and_module import Fit, FitRequest, FittedModule, MethodNotApplicable
from attncli.fits._fitting_method_registry import (
    FITS,
    find_fitting_method_spec,
    iter_widths_to_search,
    list_methods_at_fixed_width,
    list_methods_tried_by_auto,
    list_methods_with_small_logits,
)
from attncli.fits._verify_fit import FitEvidence, measure_fit
from attncli.fits.learned import find_module_with_smaller_logits
from attncli.progress import Progress, ignore_progress
from attncli.registry import call_entry_from_text

TIGHTER = 0.5
"""Share of a learned module's logits that a second attempt requests as its budget."""
DENSE_LIMIT = 8192
"""Tokens above which a search takes the first width that works, unrefined: each probe is quadratic in n."""


@dataclass(frozen=True, slots=True)
class FitAttempt:
    """The best module of one method for one pattern, and how much was tried."""

    method: str
    fit: FittedModule | None
    evidence: FitEvidence | None
    met: bool
    probes: int
    """Modules made and verified."""
    seeds: int
    """Different seeds among them."""
    reason: str | None = None
    """Why there is no module, or none that meets the request."""
    tried_widths: tuple[int, int] | None = None
    """Smallest and largest width tried by a search."""
    proved: bool = False
    """Whether the reason is a proof: no method can do it at this width."""
    least: int | None = None
    """The smallest width found, where the module is wider because it is shared."""

    @property
    def largest_absolute_logit(self) -> float:
        """The module's largest |logit|; infinite without one."""
        return self.evidence.logit_scale if self.evidence is not None else np.inf


@limit_blas_to_one_thread()
def try_fit_at_width(
    method: str,
    target: csr_array,
    request: FitRequest,
    seeds: Sequence[int],
    watch: Progress = ignore_progress,
) -> FitAttempt:
    """Try a method at one width, seed after seed, until one meets the request; else return the nearest."""
    best: FitAttempt | None = None
    for count, seed in enumerate(seeds, start=1):
        fit = run_fitting_method(method, target, request, seed)
        if isinstance(fit, MethodNotApplicable):
            if best is None:
                return FitAttempt(method, None, None, False, 0, 0, fit.reason, proved=fit.proved)
            break
        evidence = measure_fit(fit, target, watch)
        attempt = FitAttempt(
            method, fit, evidence, evidence.meets_fit_request(request), count, count
        )
        if attempt.met:
            return attempt
        if best is None or is_fit_closer_to_target(evidence, best.evidence):
            best = attempt
        best = replace(best, probes=count, seeds=count)
    assert best is not None
    assert best.evidence is not None
    return replace(best, reason=describe_missed_fit_limits(best.evidence, request))


def run_fitting_method(method: str, target: csr_array, request: FitRequest, seed: int) -> Fit:
    """Run a method from its text, such as `jl:projection=sign`."""
    rng = np.random.default_rng([seed, request.d])
    fit: Fit = call_entry_from_text(FITS, method, target=target, request=request, rng=rng)
    return fit


def is_fit_closer_to_target(evidence: FitEvidence, other: FitEvidence | None) -> bool:
    """Whether the total variation is smaller; where logits left the range of floats it is NaN, and nothing is nearer."""
    if other is None or np.isnan(other.total_variation):
        return True
    return evidence.total_variation < other.total_variation


def describe_missed_fit_limits(evidence: FitEvidence, request: FitRequest) -> str:
    """Describe which limits are missed, measured against requested."""
    if np.isnan(evidence.total_variation):
        return f"logits leave the range of {request.dtype}"
    pairs = {
        "ratio error": (evidence.ratio_error, request.ratio_error),
        "off-support ratio": (evidence.off_support_ratio, request.off_support),
        "total variation": (evidence.total_variation, request.total_variation),
        "logit scale": (evidence.logit_scale, request.logit_budget),
    }
    missed = [
        f"{name} {got:.2g} > {limit:.2g}" for name, (got, limit) in pairs.items() if got > limit
    ]
    return "misses: " + ", ".join(missed)


def find_smallest_width_of_method(
    method: str,
    target: csr_array,
    request: FitRequest,
    seeds: Sequence[int],
    widest: int,
    watch: Progress = ignore_progress,
    impossible: int = 0,
) -> FitAttempt:
    """Find the smallest width at which any seed works: double from a guess, then bisect.

    Success is not strictly monotone in d, so it is the smallest *found*. Widths up to `impossible` are left out.
    """
    tried: dict[int, FitAttempt] = {}
    ladder = [d for d in iter_widths_to_search(method, target, widest) if impossible < d <= widest]
    if not ladder:
        return FitAttempt(
            method,
            None,
            None,
            False,
            0,
            0,
            explain_no_width_to_try(method, target, widest, impossible),
        )

    def is_fit_found_at_width(d: int) -> bool:
        if d not in tried:
            tried[d] = try_fit_at_width(method, target, replace(request, d=d), seeds, watch)
        return tried[d].met

    low, high = bracket_smallest_working_width(is_fit_found_at_width, ladder, impossible)
    if high is not None and target.shape[0] <= DENSE_LIMIT:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_fit_found_at_width(middle) else (middle, high)
    return summarise_width_search(method, tried, high)


def explain_no_width_to_try(method: str, target: csr_array, widest: int, impossible: int) -> str:
    """Explain why a method has no width to try."""
    first = min(iter_widths_to_search(method, target, widest))
    if first <= impossible:
        return f"{method} has d = {first} alone, and d = {impossible} is proved impossible"
    return f"{method} needs d = {first}, above the widest that is tried, {widest}"


def bracket_smallest_working_width(
    probe: Callable[[int], bool], ladder: Iterable[int], low: int = 0
) -> tuple[int, int | None]:
    """The last width of the ladder that failed (or the one below it) and the first that worked (None if none)."""
    for d in ladder:
        if probe(d):
            return low, d
        low = d
    return low, None


def summarise_width_search(
    method: str, tried: dict[int, FitAttempt], width: int | None
) -> FitAttempt:
    """The attempt at the width found, or at the widest tried, with the counts of the whole search."""
    probes = sum(attempt.probes for attempt in tried.values())
    seeds = max(attempt.seeds for attempt in tried.values())
    chosen = tried[max(tried) if width is None else width]
    reason = chosen.reason
    if width is None and chosen.fit is not None:
        reason = f"not found up to d = {max(tried)} in {probes} probes ({reason})"
    return replace(
        chosen, probes=probes, seeds=seeds, reason=reason, tried_widths=(min(tried), max(tried))
    )


def find_narrowest_fit(
    target: csr_array,
    request: FitRequest,
    seeds: Sequence[int],
    widest: int,
    watch: Progress = ignore_progress,
    impossible: int = 0,
) -> FitAttempt:
    """`auto`: the narrowest module of several methods, and of equally narrow ones that with the smallest logits.

    Width 1 is decided first: found, it ends the search; proved impossible, it is left out of it.
    """
    attempts: list[FitAttempt] = []
    for method in list_methods_tried_by_auto():
        done = any(attempt.met for attempt in attempts)
        if done and find_fitting_method_spec(method).last:
            break
        attempt = find_smallest_width_of_method(
            method, target, request, seeds, widest, watch, impossible
        )
        attempts.append(attempt)
        if attempt.met and attempt.fit is not None and attempt.fit.d == 1:
            break
        if attempt.proved and attempt.tried_widths is not None:
            impossible = max(impossible, attempt.tried_widths[1])
    return refit_with_half_logit_budget(choose_best_fit_attempt(attempts), target, request, seeds)


def find_fit_with_smallest_logits(
    target: csr_array, request: FitRequest, seeds: Sequence[int], watch: Progress = ignore_progress
) -> FitAttempt:
    """`auto` at a given width: the smallest logits of the methods that may have them; the others only where these miss."""
    most = int(np.diff(target.indptr).max())
    first = list_methods_with_small_logits(most, request.d)
    others = [name for name in list_methods_at_fixed_width() if name not in first]
    attempts: list[FitAttempt] = []
    for methods in (first, others, *([name] for name in list_methods_tried_by_auto(last=True))):
        if not any(attempt.met for attempt in attempts):
            attempts += [try_fit_at_width(name, target, request, seeds, watch) for name in methods]
    return find_attempt_with_smaller_logits(
        choose_best_fit_attempt(attempts), target, request, seeds
    )


@limit_blas_to_one_thread()
def find_attempt_with_smaller_logits(
    attempt: FitAttempt, target: csr_array, request: FitRequest, seeds: Sequence[int]
) -> FitAttempt:
    """Look for smaller logits where a learned module's search began; return the better one."""
    if not attempt.met or attempt.fit is None or attempt.method != "learned":
        return attempt
    rng = np.random.default_rng([seeds[0], request.d])
    quieter, tried = find_module_with_smaller_logits(
        attempt.fit, attempt.largest_absolute_logit, target, request, rng
    )
    counted = replace(attempt, probes=attempt.probes + tried)
    if quieter is None:
        return counted
    return replace(counted, fit=quieter, evidence=measure_fit(quieter, target))


def refit_with_half_logit_budget(
    attempt: FitAttempt, target: csr_array, request: FitRequest, seeds: Sequence[int]
) -> FitAttempt:
    """Fit a learned module again with half of its logits as budget; return the better one."""
    if not attempt.met or attempt.fit is None or attempt.method.partition(":")[0] != "learned":
        return attempt
    tight = replace(request, d=attempt.fit.d, logit_budget=TIGHTER * attempt.largest_absolute_logit)
    again = try_fit_at_width(attempt.method, target, tight, seeds[:1])
    probes = attempt.probes + again.probes
    better = again if again.met else attempt
    return replace(better, probes=probes, seeds=attempt.seeds, tried_widths=attempt.tried_widths)


def choose_best_fit_attempt(attempts: Sequence[FitAttempt]) -> FitAttempt:
    """The narrowest that met the request, with the smallest logits; if none did, the nearest; with the counts of all."""
    good = [attempt for attempt in attempts if attempt.met and attempt.fit]
    some = [attempt for attempt in attempts if attempt.evidence]
    if good:
        chosen = min(good, key=lambda a: (a.fit.d if a.fit else 0, a.largest_absolute_logit))
    elif some:
        chosen = min(some, key=lambda a: a.evidence.total_variation if a.evidence else np.inf)
    else:
        reasons = "; ".join(attempt.reason or "" for attempt in attempts)
        chosen = replace(attempts[0], reason=reasons)
    return replace(chosen, probes=sum(attempt.probes for attempt in attempts))
