"""Runs of `attn approximate` over the length, over the width, or over both."""

import numpy as np
from scipy.sparse import csr_array

from attncli.analysis.fits.target_patterns import ChosenPatterns
from attncli.commands.approximate.fixed_attention_module.fit_patterns_at_common_width import (
    refuse_fits_that_take_days,
)
from attncli.commands.approximate.smallest_width_and_logits.logit_scale_growth_with_length import (
    measure_logit_growth_with_length,
)
from attncli.commands.approximate.smallest_width_and_logits.smallest_logits_by_width import (
    measure_logit_scale_by_width as frontier_study,
)
from attncli.commands.approximate.smallest_width_and_logits.width_growth_with_length import (
    measure_width_growth_with_length,
)
from attncli.errors import UsageError
from attncli.fits import MOST_WIDTH, FitRequest
from attncli.fits._fitting_method_registry import is_width_one_method, list_methods_at_fixed_width
from attncli.options.pattern_approximation import RandomDrawOptions, WidthSearchOptions
from attncli.options.sweep_ranges import parse_size_range, parse_size_sweep
from attncli.patterns import build_pattern
from attncli.progress import Progress
from attncli.records import Report


def sweep_length_and_width(
    sweep: str | None,
    frontier: str | None,
    chosen: ChosenPatterns,
    search: WidthSearchOptions,
    request: FitRequest,
    run: RandomDrawOptions,
    progress: Progress,
) -> Report:
    """Over the length, over the width, or over both."""
    patterns = chosen.options
    if frontier and len(patterns.pattern_names_or_default) > 1:
        raise UsageError("`frontier` takes one `pattern`.", about=["frontier", "pattern"])
    seeds, first = run.list_seeds(), patterns.pattern_names_or_default[0]
    lengths = [int(n) for n in parse_size_sweep(sweep, {"length": int})[1]] if sweep else []
    widths = parse_head_width_range(frontier) if frontier else []
    own = [name for name in list_methods_at_fixed_width() if not is_width_one_method(name)]
    methods = search.requested_fit_methods if search.method or not widths else own
    fits = len(patterns.pattern_names_or_default) * len(methods) * len(seeds) * max(1, len(widths))
    refuse_fits_that_take_days(lengths, fits, "`sweep`", "sweep to a smaller one")

    def build_pattern_of_length(name: str, length: int, rng: np.random.Generator) -> csr_array:
        return build_pattern(name, length, rng, patterns.causal)

    if not widths:
        names = patterns.pattern_names_or_default
        return measure_width_growth_with_length(
            names,
            methods,
            lengths,
            request,
            seeds,
            widest=search.widest,
            make=build_pattern_of_length,
            progress=progress,
        )
    if not lengths:
        target = chosen.build_targets(seeds[0], request.causal)[first]
        return frontier_study(first, target, widths, request, seeds, progress=progress)
    return measure_logit_growth_with_length(
        first,
        methods,
        widths,
        lengths,
        request,
        seeds=seeds,
        make=build_pattern_of_length,
        progress=progress,
    )


def parse_head_width_range(text: str) -> list[int]:
    widths = [int(d) for d in parse_size_range(f"`frontier={text!r}`", "d", text, int)]
    if not 1 <= min(widths) <= max(widths) <= MOST_WIDTH:
        raise UsageError(f"`frontier={text!r}`: widths must be from 1 to {MOST_WIDTH:,}.")
    return widths
