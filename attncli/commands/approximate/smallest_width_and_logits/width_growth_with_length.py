"""`attn approximate --sweep length=…`: the smallest width found as a function of length, and the
growth law that fits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from attncli.analysis.fits.fit_rows import FIT_METRICS, build_failed_fit_verdicts
from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.errors import format_count
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._width_search import find_narrowest_fit, find_smallest_width_of_method
from attncli.maths.curve_fits.evaluate_growth_law import RATES
from attncli.maths.curve_fits.width_growth_laws import (
    FEWEST_LENGTHS,
    GrowthLaw,
    rank_width_growth_laws,
)
from attncli.maths.number_format import format_short_number
from attncli.maths.significance_tests import mean
from attncli.progress import Progress, ignore_progress
from attncli.records import Definition, Finding, Report, Row, Scalar, View

GROWTH_METRICS = {name: FIT_METRICS[name] for name in ("d_min", "logit_scale", "probes")} | {
    "aic_above_best": Definition(
        "1",
        "AIC of a law (constant, a + b ln n, c n^e) minus that of the best: e^(-half of it) is its credibility.",
    ),
    "law_at_one_token": Definition(
        "features",
        "What a law says at n = 1: the constant, a of a + b ln n, c of c n^e; with slope or exponent it is the whole law.",
    ),
    "slope": Definition("features", "b of d = a + b ln n; `spread` is its standard error."),
    "exponent": Definition("1", "e of d = c n^e; `spread` is its standard error."),
}

Make = Callable[[str, int, np.random.Generator], csr_array]
"""(pattern, length, rng) → target."""


def measure_width_growth_with_length(
    patterns: Sequence[str],
    methods: Sequence[str],
    lengths: Sequence[int],
    request: FitRequest,
    seeds: Sequence[int],
    widest: int,
    make: Make,
    progress: Progress = ignore_progress,
) -> Report:
    """Search the width at every length, seed by seed (a fresh pattern each), and fit the laws to all points."""
    rows: list[Row] = []
    found: list[Finding] = []
    sentences: list[str] = []
    total = len(patterns) * len(methods) * len(lengths) * len(seeds)
    done = 0
    for pattern in patterns:
        for method in methods:
            label = f"{pattern} {method}"
            widths: dict[int, list[int]] = {}
            for length in lengths:
                points = []
                for seed in seeds:
                    progress(done, total, "searches")
                    points.append(
                        search_smallest_head_width(
                            pattern, method, length, request, seed, widest, make
                        )
                    )
                    done += 1
                rows += build_smallest_width_rows(label, length, points)
                widths[length] = [int(d) for d, _, _ in points if d is not None]
            laws = fit_width_growth_laws(widths)
            rows += build_width_growth_law_rows(label, laws)
            found.append(Finding(label, compare_width_growth_laws(laws, widths, widest)))
            sentences.append(
                f"{pattern if method == 'auto' else label}: {describe_width_growth(laws, widths, widest)}"
            )
    progress(total, total, "searches")
    return Report(
        study="approximate sweep",
        headline="; ".join(sentences) + ".",
        rows=tuple(rows),
        metrics=GROWTH_METRICS,
        source={"kind": "patterns", "request": request.describe_fit_request(), "widest": widest},
        input={"patterns": list(patterns), "sweep": "length", "points": list(lengths)},
        seeds=tuple(seeds),
        views=build_width_growth_tables(),
        findings=tuple(found),
        verdicts=build_failed_fit_verdicts(
            (f"{row.keys['fit']} at length {row.keys['length']}", "no seed found a width")
            for row in rows
            if row.metric == "d_min" and row.value is None
        ),
    )


Point = tuple[float | None, float | None, float]
"""(width found, its logit scale, number of probes)."""


def search_smallest_head_width(
    pattern: str, method: str, length: int, request: FitRequest, seed: int, widest: int, make: Make
) -> Point:
    target = make(pattern, length, np.random.default_rng(seed))
    if method == "auto":
        attempt = find_narrowest_fit(target, request, [seed], widest)
    else:
        attempt = find_smallest_width_of_method(method, target, request, [seed], widest)
    if not attempt.met or attempt.fit is None or attempt.evidence is None:
        return None, None, float(attempt.probes)
    return float(attempt.fit.d), attempt.evidence.logit_scale, float(attempt.probes)


def build_smallest_width_rows(label: str, length: int, points: Sequence[Point]) -> Iterator[Row]:
    """Rows with the mean and standard deviation over the seeds that found a width; `n` counts only
    those."""
    keys: dict[str, Scalar] = {"length": length, "fit": label}
    columns = zip(*points, strict=True)
    for metric, values in zip(("d_min", "logit_scale", "probes"), columns, strict=True):
        numbers = [value for value in values if value is not None]
        missing = len(values) - len(numbers)
        row = summarize_values(metric, GROWTH_METRICS[metric].unit, numbers, "not found", keys)
        yield (
            row if not missing or not numbers else note_seeds_without_sufficient_width(row, missing)
        )


def note_seeds_without_sufficient_width(row: Row, missing: int) -> Row:
    """Add a note to a mean from which some seeds are missing."""
    return replace(row, note=f"{missing} more seeds found no width")


def fit_width_growth_laws(widths: dict[int, list[int]]) -> list[GrowthLaw]:
    """Fit the growth laws, best first; empty where too few lengths have a width."""
    points = [(length, d) for length, found in widths.items() for d in found]
    if len({length for length, _ in points}) < FEWEST_LENGTHS:
        return []
    lengths, ds = zip(*points, strict=True)
    return rank_width_growth_laws(lengths, ds)


def build_width_growth_law_rows(label: str, laws: Sequence[GrowthLaw]) -> Iterator[Row]:
    for law in laws:
        keys: dict[str, Scalar] = {"fit": label, "law": law.name}
        yield Row("aic_above_best", law.aic - laws[0].aic, "1", keys=keys)
        yield Row("law_at_one_token", law.parameters[0], "features", keys=keys)
        name = RATES.get(law.name)
        if name:
            unit = GROWTH_METRICS[name].unit
            yield Row(name, law.parameters[1], unit, spread=law.slope_error, keys=keys)


def describe_width_growth(
    laws: Sequence[GrowthLaw], widths: dict[int, list[int]], widest: int
) -> str:
    """`width grows about as log n: d = 3 at length 16, 7 at length 512`"""
    ends = dict.fromkeys(length for length, found in widths.items() if found)
    law = summarize_width_growth(laws) or compare_width_growth_laws(laws, widths, widest)
    if not ends:
        return law
    sentences = [
        f"{format_short_number(mean(widths[n]), 3)} at length {n}"
        for n in dict.fromkeys((min(ends), max(ends)))
    ]
    return f"{law}; d = {', '.join(sentences)}"


AS_WORDS = {"constant": "no growth", "log": "log n", "power": "a power of n"}


def summarize_width_growth(laws: Sequence[GrowthLaw]) -> str:
    """Describe the growth: `width grows about as n^0.11` if no other law fits as well, else only
    what all laws share."""
    if not laws:
        return ""
    close = [law for law in laws if law.rival]
    if not close:
        return format_width_growth_law(laws[0])
    open_laws = [laws[0], *close]
    names = " and ".join(AS_WORDS[law.name] for law in open_laws)
    if any(law.name == "constant" for law in open_laws):
        return f"whether the width grows is open: {names} fit equally well"
    way = "grows" if laws[0].parameters[1] > 0.0 else "falls"
    return f"width {way}, but {names} fit equally well"


def format_width_growth_law(law: GrowthLaw) -> str:
    if law.name == "constant":
        width = law.parameters[0]
        return f"width stays at {'' if width.is_integer() else 'about '}{format_short_number(width, 3)}"
    grows = "grows" if law.parameters[1] > 0.0 else "falls"
    return f"width {grows} " + (
        "about as log n" if law.name == "log" else f"about as n^{law.parameters[1]:.2g}"
    )


def compare_width_growth_laws(
    laws: Sequence[GrowthLaw], widths: dict[int, list[int]], widest: int
) -> str:
    """The best law with its numbers, and how far the others are behind."""
    if not laws:
        found = sum(bool(part) for part in widths.values())
        return (
            f"a width up to {widest} was found at {found} of {format_count(len(widths), 'length')}, "
            f"too few for a growth law (it takes {FEWEST_LENGTHS})"
        )
    best = laws[0]
    of = "slope" if best.name == "log" else "exponent"
    error = f" ({of} ± {best.slope_error:.1g})" if best.slope_error else ""
    others = ", ".join(f"{AS_WORDS[law.name]} {law.aic - best.aic:.2g}" for law in laws[1:])
    return f"{summarize_width_growth(laws)}. {best.text}{error}; AIC behind it: {others}"


def build_width_growth_tables() -> tuple[View, ...]:
    return (
        View("Smallest width found", "length", ("d_min",), across="fit"),
        View("Logit scale there", "length", ("logit_scale",), across="fit"),
        View(
            "How far each law is behind the best (AIC)",
            "fit",
            ("aic_above_best",),
            across="law",
            findings="law",
        ),
    )
