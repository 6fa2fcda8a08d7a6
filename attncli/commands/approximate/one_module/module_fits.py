"""`attn approximate`: what can one fixed module express by its inputs alone, how wide, at what logit scale?"""

from collections.abc import Iterator

from scipy.sparse import csr_array

from attncli.analysis.fits.fit_rows import (
    FIT_METRICS,
    dense_warnings,
    describe,
    fit_keys,
    fit_rows,
    fit_views,
    size_values,
    verdict,
)
from attncli.analysis.fits.unmet import unmet_verdicts
from attncli.commands.approximate.one_module.solutions import Solution, SolvedPattern
from attncli.errors import counted
from attncli.fits._types import FitRequest
from attncli.maths.digits import about, number
from attncli.records import Finding, Report, Row


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
        verdicts=unmet_verdicts((one.pattern, verdict(one.chosen)) for one in missed(solution)),
    )


def missed(solution: Solution) -> list[SolvedPattern]:
    return [one for one in solution.solved if not one.chosen.met]


def all_rows(solution: Solution, timing: bool) -> Iterator[Row]:
    for one in solution.solved:
        for attempt, seconds in zip(one.attempts, one.seconds, strict=True):
            yield from fit_rows(
                one.pattern, one.target, attempt, solution.request, solution.searched
            )
            if timing:
                yield Row("seconds", seconds, "s", keys=fit_keys(one.pattern, attempt.method))


def headline(solution: Solution) -> str:
    """`d = 8 is enough (…); the paper's construction would need d ≈ 24,000`."""
    short = missed(solution)
    bound = max(bound_of(one.target, solution.request) for one in solution.solved)
    says = f"the paper's construction would need d ≈ {about(bound)}"
    if short:
        what = "not found" if solution.searched else "not met"
        reason = short[0].chosen.reason or "no method applies"
        many = f" (and {len(short) - 1} more of {len(solution.solved)})" if len(short) > 1 else ""
        said = reason if reason.startswith(what) else f"{what}; {reason}"
        return f"{short[0].pattern}{many}: {said}; {says}."
    d = solution.request.d
    scale = max(one.chosen.evidence.logit_scale for one in solution.solved if one.chosen.evidence)
    if len(solution.solved) == 1:
        one = solution.solved[0].chosen
        return f"d = {d} is enough ({one.method}, logits to {number(scale)}); {says}."
    worst = max(solution.solved, key=variation)
    return (
        f"d = {d} is enough: one module makes all {counted(len(solution.solved), 'pattern')} by its inputs alone "
        f"(worst: {worst.pattern}, total variation {number(variation(worst))}); {says}."
    )


def variation(one: SolvedPattern) -> float:
    return one.chosen.evidence.total_variation if one.chosen.evidence else 0.0


def bound_of(target: csr_array, request: FitRequest) -> int:
    return int(size_values(target, request)["sufficient_d"] or 0)


def findings(solution: Solution) -> Iterator[Finding]:
    """Per fit: whether it meets the request, or why not."""
    for one in solution.solved:
        for attempt in one.attempts:
            label = str(fit_keys(one.pattern, attempt.method)["fit"])
            yield Finding(label, verdict(attempt))


def warnings(solution: Solution) -> Iterator[str]:
    yield from dense_warnings({one.pattern: one.target for one in solution.solved})
    failed = [a for one in solution.solved for a in one.attempts if not a.met and a.fit]
    if failed and solution.searched:
        yield "a width that was not found is not proved impossible: only that many probes failed."
