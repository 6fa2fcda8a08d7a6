"""What `attn approximate` can run: a plain fit, a trained head, a sweep or frontier, the check of a saved fit."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from attncli.analysis import Progress
from attncli.analysis.fits.chosen_patterns import ChosenPatterns
from attncli.analysis.fits.pictures import with_pictures
from attncli.analysis.network_sources import refuse_other_files
from attncli.commands.approximate.least_sizes.frontier import frontier as frontier_study
from attncli.commands.approximate.least_sizes.scale_growth import scale_growth
from attncli.commands.approximate.least_sizes.width_growth import growth
from attncli.commands.approximate.one_module.decide import decide
from attncli.commands.approximate.one_module.module_fits import approximate
from attncli.commands.approximate.one_module.solutions import require_days, solve
from attncli.commands.head_capacity.one_head.found_inputs import (
    as_files,
    found_inputs,
    require_plain,
)
from attncli.commands.head_capacity.one_head.trained_head import trained_head
from attncli.commands.verify_fit.report import verify_file
from attncli.errors import UsageError
from attncli.fits import MOST_WIDTH, FitRequest
from attncli.fits._module_files import SavedFit, metadata, read_fits, tensors
from attncli.fits._registry import compared_at_a_width, one_wide
from attncli.head_weights.head import Head, read_head
from attncli.io.tensor_files import save_tensors
from attncli.options.model import CheckpointOptions
from attncli.options.patterns import DrawOptions, PatternOptions, SearchOptions
from attncli.options.size_ranges import parse_range, parse_sweep
from attncli.patterns import build
from attncli.patterns._heads import model_head
from attncli.patterns._matrices import GivenMatrix
from attncli.python.question import How
from attncli.records import Report

RealInputs = Callable[..., Report]
"""From the report of free inputs to one with those of real tokens beside them."""


def solved(
    chosen: ChosenPatterns,
    search: SearchOptions,
    request: FitRequest,
    run: DrawOptions,
    timing: bool,
    how: How,
) -> Report:
    """One module for all patterns, at the width given or at the smallest found."""
    save, seeds = how.save_module, run.all_seeds()
    targets, methods = chosen.targets(seeds[0], request.causal), search.methods
    searching = search.width is None
    solution = solve(
        targets,
        methods,
        request,
        seeds,
        search=searching,
        widest=search.widest,
        progress=how.progress,
    )
    if save is not None:
        write_fits(save, solution.fits, solution.request, how, list(targets))
    report = approximate(solution, timing)
    return with_pictures(report, solution.fits) if how.pictures or how.maps else report


def decided(
    chosen: ChosenPatterns,
    search: SearchOptions,
    request: FitRequest,
    run: DrawOptions,
    how: How,
) -> Report:
    """Whether the width given is enough, or which is the least."""
    if search.method:
        raise UsageError(
            "`decide` tries every method: leave `method` out.", idle=["method"], because=["decide"]
        )
    seeds = run.all_seeds()
    targets = chosen.targets(seeds[0], request.causal)
    return decide(targets, request, search.width, search.widest, seeds, how.progress)


def write_fits(
    path: Path,
    fits: Sequence[SavedFit],
    request: FitRequest,
    how: How,
    patterns: Sequence[str] = (),
) -> None:
    """One file for all patterns, counted as they were asked for."""
    if not fits:
        raise UsageError(
            f"no method made a module to write to {path}: allow more width or another method."
        )
    save_tensors(path, tensors(fits), metadata(fits, request, patterns), how.say)


def head_of(module: str, files: CheckpointOptions, how: How) -> Head:
    """The trained head; one that no file or picture can hold is refused before the work if one is asked for."""
    head = read_head(module, files.to_fetch())
    if how.pictures or how.save_module is not None:
        require_plain(head)
    return head


def on_head(
    head: Head,
    chosen: ChosenPatterns,
    search: SearchOptions,
    request: FitRequest,
    run: DrawOptions,
    how: How,
    real: RealInputs | None = None,
) -> Report:
    """A trained head, its mask, and inputs for every pattern; `real`: the model whose tokens are tried too."""
    if request.causal and not head.causal:
        raise UsageError(
            "`causal`: every query of this head sees all keys; leave it out.", idle=["causal"]
        )
    save, seeds = how.save_module, run.all_seeds()
    targets = chosen.targets(seeds[0], head.causal)
    request = replace(request.at(head.d), causal=head.causal)
    found = found_inputs(head, targets, search.methods, request, seeds, how.progress)
    plain = how.maps and head.rotary is None  # a page can do without, a file and a plot cannot
    fits = as_files(head, found) if how.pictures or plain or save is not None else []
    if save is not None:
        write_fits(save, fits, replace(request, dtype="float64"), how)
    report = trained_head(head, found, request, seeds)
    if real is not None:
        report = real(report, head, found, request, seeds, how.progress)
    return with_pictures(report, fits) if how.pictures or plain else report


def refuse_maps_of_other_lengths(patterns: PatternOptions, sweep: str | None) -> None:
    """A sweep over the length needs patterns that have every length."""
    for text in patterns.chosen if sweep else ():
        own = "what was given" if isinstance(text, GivenMatrix) else "its text"
        if model_head(text) is not None or isinstance(text, GivenMatrix):
            raise UsageError(
                f"`sweep`: {text} is as long as {own}; leave one of them out.",
                rivals=["sweep", "pattern"],
            )


def varied(
    sweep: str | None,
    frontier: str | None,
    chosen: ChosenPatterns,
    search: SearchOptions,
    request: FitRequest,
    run: DrawOptions,
    progress: Progress,
) -> Report:
    """Over the length, over the width, or over both."""
    patterns = chosen.options
    if sweep and patterns.length is not None:
        raise UsageError(
            "`sweep='length=...'` sets the length: leave `length` out.",
            idle=["length"],
            because=["sweep"],
        )
    if frontier and len(patterns.chosen) > 1:
        raise UsageError("`frontier` takes one `pattern`.", rivals=["frontier", "pattern"])
    seeds, first = run.all_seeds(), patterns.chosen[0]
    lengths = [int(n) for n in parse_sweep(sweep, {"length": int})[1]] if sweep else []
    widths = frontier_widths(frontier) if frontier else []
    own = [name for name in compared_at_a_width() if not one_wide(name)]
    methods = search.methods if search.method or not widths else own
    fits = len(patterns.chosen) * len(methods) * len(seeds) * max(1, len(widths))
    require_days(lengths, fits, "`sweep`", "sweep to a smaller one")

    def make(name: str, length: int, rng: np.random.Generator) -> csr_array:
        return build(name, length, rng, patterns.causal)

    if not widths:
        names = patterns.chosen
        return growth(names, methods, lengths, request, seeds, search.widest, make, progress)
    if not lengths:
        target = chosen.targets(seeds[0], request.causal)[first]
        return frontier_study(first, target, widths, request, seeds, progress=progress)
    return scale_growth(first, methods, widths, lengths, request, seeds, make, progress)


def frontier_widths(text: str) -> list[int]:
    widths = [int(d) for d in parse_range(f"`frontier={text!r}`", "d", text, int)]
    if not 1 <= min(widths) <= max(widths) <= MOST_WIDTH:
        raise UsageError(f"`frontier={text!r}`: widths must be from 1 to {MOST_WIDTH:,}.")
    return widths


def verified(path: Path, how: How) -> Report:
    """What a saved fit does, measured again."""
    refuse_other_files(str(path), "approximate(verify=FILE)")
    report = verify_file(path, how.progress)
    return with_pictures(report, read_fits(path)[0]) if how.pictures or how.maps else report
