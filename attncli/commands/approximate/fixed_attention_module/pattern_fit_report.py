"""Study of `attn approximate`: which width and logit scale one fixed module needs for the patterns."""

from collections.abc import Iterator

from attncli.analysis.fits.fit_rows import (
    FIT_METRICS,
    build_failed_fit_verdicts,
    build_fit_rows,
    build_fit_views,
    compute_theoretical_widths,
    describe_fit_attempt,
    describe_fits,
    fit_row_keys,
    warn_about_dense_rows,
)
from attncli.commands.approximate.fixed_attention_module.fit_patterns_at_common_width import (
    Solution,
    SolvedPattern,
)
from attncli.errors import format_count
from attncli.maths.number_format import format_number, format_two_significant_digits
from attncli.records import Finding, Report, Row


def build_approximation_report(solution: Solution, timing: bool = False) -> Report:
    """The report of a run. With `timing` the same command no longer gives the same bytes."""
    effort = ("probes", "seeds_tried", "seconds") if timing else ("probes", "seeds_tried")
    return Report(
        study="approximate",
        headline=format_required_width_headline(solution),
        rows=tuple(build_pattern_fit_rows(solution, timing)),
        metrics=FIT_METRICS,
        source=describe_fits(solution.fits, solution.request),
        input={"patterns": [one.pattern for one in solution.patterns]},
        seeds=solution.seeds,
        views=build_fit_views(*effort),
        findings=tuple(build_pattern_fit_findings(solution)),
        warnings=tuple(build_pattern_fit_warnings(solution)),
        verdicts=build_failed_fit_verdicts(
            (one.pattern, describe_fit_attempt(one.best_attempt))
            for one in select_patterns_not_fitted(solution)
        ),
    )


def select_patterns_not_fitted(solution: Solution) -> list[SolvedPattern]:
    return [one for one in solution.patterns if not one.best_attempt.met]


def build_pattern_fit_rows(solution: Solution, timing: bool) -> Iterator[Row]:
    for one in solution.patterns:
        for attempt, seconds in zip(one.attempts, one.seconds, strict=True):
            yield from build_fit_rows(
                one.pattern, one.target, attempt, solution.request, solution.searched
            )
            if timing:
                yield Row("seconds", seconds, "s", keys=fit_row_keys(one.pattern, attempt.method))


def format_required_width_headline(solution: Solution) -> str:
    """`d = 8 is enough (…); the paper's construction would need d ≈ 24,000`."""
    short = select_patterns_not_fitted(solution)
    bound = max(
        int(compute_theoretical_widths(one.target, solution.request)["sufficient_d"] or 0)
        for one in solution.patterns
    )
    says = f"the paper's construction would need d ≈ {format_two_significant_digits(bound)}"
    if short:
        what = "not found" if solution.searched else "not met"
        reason = short[0].best_attempt.reason or "no method applies"
        many = f" (and {len(short) - 1} more of {len(solution.patterns)})" if len(short) > 1 else ""
        sentence = reason if reason.startswith(what) else f"{what}; {reason}"
        return f"{short[0].pattern}{many}: {sentence}; {says}."
    d = solution.request.d
    scale = max(
        one.best_attempt.evidence.logit_scale
        for one in solution.patterns
        if one.best_attempt.evidence
    )
    if len(solution.patterns) == 1:
        one = solution.patterns[0].best_attempt
        return f"d = {d} is enough ({one.method}, logits to {format_number(scale)}); {says}."
    worst = max(solution.patterns, key=total_variation_of_best_fit_or_zero)
    return (
        f"d = {d} is enough: one module makes all {format_count(len(solution.patterns), 'pattern')} by its inputs alone "
        f"(worst: {worst.pattern}, total variation {format_number(total_variation_of_best_fit_or_zero(worst))}); {says}."
    )


def total_variation_of_best_fit_or_zero(one: SolvedPattern) -> float:
    return one.best_attempt.evidence.total_variation if one.best_attempt.evidence else 0.0


def build_pattern_fit_findings(solution: Solution) -> Iterator[Finding]:
    """Per fit: whether it meets the request, or why not."""
    for one in solution.patterns:
        for attempt in one.attempts:
            label = str(fit_row_keys(one.pattern, attempt.method)["fit"])
            yield Finding(label, describe_fit_attempt(attempt))


def build_pattern_fit_warnings(solution: Solution) -> Iterator[str]:
    yield from warn_about_dense_rows({one.pattern: one.target for one in solution.patterns})
    failed = [a for one in solution.patterns for a in one.attempts if not a.met and a.fit]
    if failed and solution.searched:
        yield "a width that was not found is not proved impossible: only that many probes failed."
