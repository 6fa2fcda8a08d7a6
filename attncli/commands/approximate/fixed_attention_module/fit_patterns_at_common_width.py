"""Patterns fitted by several methods, and the one module that serves them all."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.sparse import csr_array

from attncli.fits._fit_files import ModuleArrays, SavedFit
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._width_search import (
    DENSE_LIMIT,
    FitAttempt,
    choose_best_fit_attempt,
    find_fit_with_smallest_logits,
    find_narrowest_fit,
    find_smallest_width_of_method,
    try_fit_at_width,
)
from attncli.progress import Progress, ignore_progress
from attncli.resource_limits import refuse_too_many_token_pairs

VERIFICATIONS = 100
"""Verifications per fit, each over all pairs of tokens: for the steps of a width search and for
failed draws."""
WIDEST = 512
"""Largest width of a search, unless the user sets another."""


@dataclass(frozen=True, slots=True)
class SolvedPattern:
    """One pattern, every method that was tried on it, and the narrowest fit that meets the request (or the nearest)."""

    pattern: str
    target: csr_array
    attempts: tuple[FitAttempt, ...]
    best_attempt: FitAttempt
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Solution:
    """All patterns of a run, served by one module."""

    patterns: tuple[SolvedPattern, ...]
    request: FitRequest
    """At the shared width."""
    searched: bool
    seeds: tuple[int, ...]
    fits: tuple[SavedFit, ...]
    """The chosen fits at the shared width: the same w_q and w_k, one x each."""


def fit_patterns_by_all_methods(
    targets: Mapping[str, csr_array],
    methods: Sequence[str],
    request: FitRequest,
    seeds: Sequence[int],
    *,
    search: bool = True,
    widest: int = WIDEST,
    progress: Progress = ignore_progress,
) -> Solution:
    """Fit every pattern by every method (`auto` among them), at `request.d` or at the smallest width found."""
    for pattern, target in targets.items():
        refuse_fits_that_take_days([target.shape[0]], len(methods), pattern, "lower `length`")
    total = len(targets) * len(methods)
    solved: list[SolvedPattern] = []
    for pattern, target in targets.items():
        attempts: list[FitAttempt] = []
        seconds: list[float] = []
        watch = progress if target.shape[0] > DENSE_LIMIT else ignore_progress
        for method in methods:
            progress(len(solved) * len(methods) + methods.index(method), total, "fits")
            began = time.process_time()
            attempt = fit_pattern_by_method(method, target, request, seeds, search, widest, watch)
            if attempt.method in (other.method for other in attempts):
                continue  # `auto` chose a method that was asked for by name too
            attempts.append(attempt)
            seconds.append(time.process_time() - began)
        solved.append(
            SolvedPattern(
                pattern, target, tuple(attempts), choose_best_fit_attempt(attempts), tuple(seconds)
            )
        )
    progress(total, total, "fits")
    d = max((one.best_attempt.fit.d for one in solved if one.best_attempt.fit), default=request.d)
    wide = tuple(
        refit_pattern_at_common_width(one, methods, replace(request, d=d), seeds) for one in solved
    )
    return pad_fits_to_same_width(wide, request, search, tuple(seeds))


def refuse_fits_that_take_days(lengths: Sequence[int], fits: int, what: str, advice: str) -> None:
    """Refuse fits that would take more than days at these lengths."""
    pairs = fits * sum(length**2 for length in lengths) * VERIFICATIONS
    refuse_too_many_token_pairs(pairs, what, advice)


def fit_pattern_by_method(
    method: str,
    target: csr_array,
    request: FitRequest,
    seeds: Sequence[int],
    search: bool,
    widest: int,
    watch: Progress,
) -> FitAttempt:
    if method == "auto":
        if search:
            return find_narrowest_fit(target, request, seeds, widest, watch)
        return find_fit_with_smallest_logits(target, request, seeds, watch)
    if search:
        return find_smallest_width_of_method(method, target, request, seeds, widest, watch)
    return try_fit_at_width(method, target, request, seeds, watch)


def refit_pattern_at_common_width(
    one: SolvedPattern, methods: Sequence[str], request: FitRequest, seeds: Sequence[int]
) -> SolvedPattern:
    """Return the module with the smallest logits at the common width: this pattern's own, widened,
    or a new fit."""
    own = one.best_attempt
    if not own.met or own.fit is None or own.fit.d == request.d:
        return one
    found = [
        find_fit_with_smallest_logits(one.target, request, seeds)
        if method == "auto"
        else try_fit_at_width(method, one.target, request, seeds)
        for method in methods
    ]
    best = choose_best_fit_attempt(found)
    if not best.met or best.largest_absolute_logit >= own.largest_absolute_logit:
        return one
    before = {attempt.method: attempt for attempt in one.attempts}
    same = before.get(best.method, own)
    least = same.fit.d if same.met and same.fit is not None else own.fit.d
    probes, tried = own.probes + best.probes, max(own.seeds, best.seeds)
    shared = replace(best, probes=probes, seeds=tried, tried_widths=own.tried_widths, least=least)
    gone = {best.method} if own.method in methods else {best.method, own.method}
    attempts = (*(each for name, each in before.items() if name not in gone), shared)
    seconds = (*one.seconds, 0.0)[: len(attempts)]
    return replace(one, attempts=attempts, best_attempt=shared, seconds=seconds)


def pad_fits_to_same_width(
    solved: tuple[SolvedPattern, ...], request: FitRequest, searched: bool, seeds: tuple[int, ...]
) -> Solution:
    """Bring the chosen fits to one width, where they have the same w_q and w_k."""
    fitted = [
        (number, one, one.best_attempt.fit)
        for number, one in enumerate(solved)
        if one.best_attempt.fit
    ]
    d = max((fit.d for _, _, fit in fitted), default=request.d)
    saved = []
    for number, one, fit in fitted:
        wide = fit.pad_module_to_width(d)
        stored = ModuleArrays(wide.w_q, wide.w_k, wide.x, wide.dtype, wide.causal)
        saved.append(SavedFit(one.pattern, one.best_attempt.method, stored, one.target, number))
    return Solution(solved, replace(request, d=d), searched, seeds, tuple(saved))
