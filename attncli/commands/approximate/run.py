"""Runs of `attn approximate` at one size: a plain fit, or a decision."""

from attncli.analysis.fits.target_patterns import ChosenPatterns
from attncli.commands.approximate.fixed_attention_module.fit_patterns_at_common_width import (
    fit_patterns_by_all_methods,
)
from attncli.commands.approximate.fixed_attention_module.pattern_fit_report import (
    build_approximation_report,
)
from attncli.errors import UsageError
from attncli.fits import FitRequest
from attncli.options.pattern_approximation import (
    PatternOptions,
    RandomDrawOptions,
    WidthSearchOptions,
)
from attncli.patterns._pattern_text_grammar import parse_attention_head_of_model
from attncli.patterns._user_matrices import UserMatrix
from attncli.python.questions import RunContext
from attncli.records import Report


def fit_chosen_patterns(
    chosen: ChosenPatterns,
    search: WidthSearchOptions,
    request: FitRequest,
    run: RandomDrawOptions,
    timing: bool,
    how: RunContext,
) -> Report:
    """Fit one module for all patterns, at the requested width or at the smallest found."""
    save, seeds = how.save_module, run.list_seeds()
    targets, methods = chosen.build_targets(seeds[0], request.causal), search.requested_fit_methods
    searching = search.width is None
    solution = fit_patterns_by_all_methods(
        targets,
        methods,
        request,
        seeds,
        search=searching,
        widest=search.widest,
        progress=how.progress,
    )
    if save is not None:
        from attncli.analysis.fits.write_fit_files import write_fits

        write_fits(save, solution.fits, solution.request, how.say, list(targets))
    report = build_approximation_report(solution, timing)
    if not how.pictures and not how.maps:
        return report
    from attncli.analysis.fits.target_and_fitted_map_pictures import add_map_pictures_of_fits

    return add_map_pictures_of_fits(report, solution.fits)


def bound_width_for_chosen_patterns(
    chosen: ChosenPatterns,
    search: WidthSearchOptions,
    request: FitRequest,
    run: RandomDrawOptions,
    how: RunContext,
) -> Report:
    """Decide whether the requested width is enough, or find the smallest that is."""
    from attncli.commands.approximate.fixed_attention_module.smallest_width_bounds import (
        report_smallest_head_widths,
    )

    seeds = run.list_seeds()
    targets = chosen.build_targets(seeds[0], request.causal)
    return report_smallest_head_widths(
        targets, request, search.width, search.widest, seeds, how.progress
    )


def refuse_fixed_length_patterns(patterns: PatternOptions) -> None:
    """Refuse patterns that have one length where a sweep needs every length."""
    for text in patterns.pattern_names_or_default:
        own = "what was given" if isinstance(text, UserMatrix) else "its text"
        if parse_attention_head_of_model(text) is not None or isinstance(text, UserMatrix):
            raise UsageError(
                f"`sweep`: {text} is as long as {own}; leave one of them out.",
                about=["sweep", "pattern"],
            )
