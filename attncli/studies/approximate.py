"""`attn approximate`: what can one fixed module express by its inputs alone, how wide, at what logit scale?"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_array

from attncli.fits._files import SavedFit, StoredModule
from attncli.fits._search import (
    DENSE_LIMIT,
    Attempt,
    best_of,
    find_width,
    narrowest,
    try_width,
)
from attncli.fits._types import FitRequest
from attncli.maths.digits import number
from attncli.records import Finding, Report, Row
from attncli.studies import Progress, no_progress
from attncli.studies.fit_rows import (
    FIT_METRICS,
    dense_warnings,
    fit_keys,
    fit_rows,
    fit_views,
    size_values,
)

WIDEST = 512
"""Where a search for the width gives up unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Solved:
    """One pattern, every method that was tried on it, and the narrowest fit that meets the request (or the nearest)."""

    pattern: str
    target: csr_array
    attempts: tuple[Attempt, ...]
    chosen: Attempt
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Solution:
    """All patterns of a run, served by one module."""

    solved: tuple[Solved, ...]
    request: FitRequest
    """At the shared width."""
    searched: bool
    seeds: tuple[int, ...]
    fits: tuple[SavedFit, ...]
    """The chosen fits at the shared width: the same w_q and w_k, one x each."""


def solve(
    targets: Mapping[str, csr_array],
    methods: Sequence[str],
    request: FitRequest,
    seeds: Sequence[int],
    *,
    search: bool = True,
    widest: int = WIDEST,
    progress: Progress = no_progress,
) -> Solution:
    """Fit every pattern by every method (`auto` among them), at `request.d` or at the smallest width found."""
    total = len(targets) * len(methods)
    solved: list[Solved] = []
    for pattern, target in targets.items():
        attempts: list[Attempt] = []
        seconds: list[float] = []
        watch = progress if target.shape[0] > DENSE_LIMIT else no_progress
        for method in methods:
            progress(len(solved) * len(methods) + methods.index(method), total, "fits")
            began = time.process_time()
            attempt = attempt_one(method, target, request, seeds, search, widest, watch)
            if attempt.method in (other.method for other in attempts):
                continue  # `auto` chose a method that was asked for by name too
            attempts.append(attempt)
            seconds.append(time.process_time() - began)
        solved.append(Solved(pattern, target, tuple(attempts), best_of(attempts), tuple(seconds)))
    progress(total, total, "fits")
    return share(tuple(solved), request, search, tuple(seeds))


def attempt_one(
    method: str,
    target: csr_array,
    request: FitRequest,
    seeds: Sequence[int],
    search: bool,
    widest: int,
    watch: Progress,
) -> Attempt:
    if method == "auto":
        return narrowest(target, request, seeds, widest if search else None, watch)
    if search:
        return find_width(method, target, request, seeds, widest, watch)
    return try_width(method, target, request, seeds, watch)


def share(
    solved: tuple[Solved, ...], request: FitRequest, searched: bool, seeds: tuple[int, ...]
) -> Solution:
    """Bring the chosen fits to one width, where they have the same w_q and w_k."""
    fitted = [(one, one.chosen.fit) for one in solved if one.chosen.fit]
    d = max((fit.d for _, fit in fitted), default=request.d)
    saved = []
    for one, fit in fitted:
        wide = fit.padded(d)
        stored = StoredModule(wide.w_q, wide.w_k, wide.x, wide.dtype, wide.causal)
        saved.append(SavedFit(one.pattern, one.chosen.method, stored, one.target))
    return Solution(solved, request.at(d), searched, seeds, tuple(saved))


def approximate(solution: Solution, timing: bool = False) -> Report:
    """The report of a run. With `timing` the same command no longer gives the same bytes."""
    effort = ("probes", "seeds_tried", "seconds") if timing else ("probes", "seeds_tried")
    return Report(
        study="approximate",
        headline=headline(solution),
        rows=tuple(all_rows(solution, timing)),
        metrics=FIT_METRICS,
        source=describe(solution.fits, solution.request),
        input={"patterns": [one.pattern for one in solution.solved]},
        seeds=solution.seeds,
        views=fit_views(*effort),
        findings=tuple(findings(solution)),
        warnings=tuple(warnings(solution)),
    )


def all_rows(solution: Solution, timing: bool) -> Iterator[Row]:
    for one in solution.solved:
        for attempt, seconds in zip(one.attempts, one.seconds, strict=True):
            yield from fit_rows(
                one.pattern, one.target, attempt, solution.request, solution.searched
            )
            if timing:
                yield Row("seconds", seconds, "s", keys=fit_keys(one.pattern, attempt.method))


def describe(fits: Sequence[SavedFit], request: FitRequest) -> dict[str, Any]:
    """The request, and the one module that serves all patterns."""
    limits = request.described()
    described: dict[str, Any] = {"kind": "patterns", "request": limits}
    if fits:
        described["module"] = {
            "d": fits[0].module.w_q.shape[1],
            "hidden": fits[0].module.w_q.shape[0],
            "weights_sha256": shared_hash(fits),
            "patterns": [fit.pattern for fit in fits],
        }
    return described


def shared_hash(fits: Sequence[SavedFit]) -> str:
    """The hash of w_q and w_k, which all fits must share."""
    hashes = {weights_hash(fit.module) for fit in fits}
    assert len(hashes) == 1, "patterns of one run have different weights"
    return hashes.pop()


def weights_hash(module: StoredModule) -> str:
    return hashlib.sha256(module.w_q.tobytes() + module.w_k.tobytes()).hexdigest()


def headline(solution: Solution) -> str:
    """`d = 8 is enough (…); the paper's bound says 24 000`."""
    missed = [one for one in solution.solved if not one.chosen.met]
    bound = max(bound_of(one.target, solution.request) for one in solution.solved)
    says = f"the paper's bound says {thousands(bound)}"
    if missed:
        what = "not found" if solution.searched else "not met"
        reason = missed[0].chosen.reason or "no method applies"
        return f"{missed[0].pattern}: {what}; {reason}; {says}."
    d = solution.request.d
    scale = max(one.chosen.evidence.logit_scale for one in solution.solved if one.chosen.evidence)
    if len(solution.solved) == 1:
        one = solution.solved[0].chosen
        return f"d = {d} is enough ({one.method}, logits to {number(scale)}); {says}."
    worst = max(solution.solved, key=variation)
    return (
        f"d = {d} is enough: one module makes all {len(solution.solved)} patterns by its inputs alone "
        f"(worst: {worst.pattern}, total variation {number(variation(worst))}); {says}."
    )


def variation(one: Solved) -> float:
    return one.chosen.evidence.total_variation if one.chosen.evidence else 0.0


def bound_of(target: csr_array, request: FitRequest) -> int:
    return int(size_values(target, request)["sufficient_d"] or 0)


def thousands(value: int) -> str:
    """Two significant digits, thousands apart: the bound's constants deserve no more."""
    digits = max(0, len(str(value)) - 2)
    return f"{round(value, -digits):,}".replace(",", " ")


def findings(solution: Solution) -> Iterator[Finding]:
    """Per fit: whether it meets the request, or why not."""
    for one in solution.solved:
        for attempt in one.attempts:
            label = str(fit_keys(one.pattern, attempt.method)["fit"])
            yield Finding(label, verdict(attempt))


def verdict(attempt: Attempt) -> str:
    if attempt.met:
        return "meets the request"
    return attempt.reason or "misses the request"


def warnings(solution: Solution) -> Iterator[str]:
    yield from dense_warnings({one.pattern: one.target for one in solution.solved})
    failed = [a for one in solution.solved for a in one.attempts if not a.met and a.fit]
    if failed and solution.searched:
        yield "a width that was not found is not proved impossible: only that many probes failed."
