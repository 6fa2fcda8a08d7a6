"""`attn approximate --sweep length=… --frontier …`: how the logit scale grows with the length at fixed widths."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from attncli.analysis.fits.fit_rows import FIT_METRICS, build_failed_fit_verdicts, max_keys_per_row
from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.commands.approximate.smallest_width_and_logits.width_growth_with_length import Make
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._width_search import try_fit_at_width
from attncli.maths.curve_fits.width_growth_laws import FEWEST_LENGTHS, solve_least_squares
from attncli.maths.head_capacity.width_formulas import compute_permutation_logit_scale_exponent
from attncli.maths.number_format import format_number
from attncli.progress import Progress, ignore_progress
from attncli.records import Definition, Finding, Report, Row, Scalar, View

SCALE_METRICS = {
    "logit_scale": FIT_METRICS["logit_scale"],
    "scale_exponent": Definition(
        "1",
        "e of logit scale ∝ n^e, by least squares in logarithms; `spread` is its standard error.",
    ),
    "permutation_exponent": Definition(
        "1", "2 / (d - 1): the law for one key a row on evenly spaced keys (our own derivation)."
    ),
}


TOO_FEW = f"fewer than {FEWEST_LENGTHS} lengths have a fit"


def measure_logit_growth_with_length(
    pattern: str,
    methods: Sequence[str],
    widths: Sequence[int],
    lengths: Sequence[int],
    request: FitRequest,
    seeds: Sequence[int],
    make: Make,
    progress: Progress = ignore_progress,
) -> Report:
    """For every width: the smallest verified logit scale of the methods at each length, and its exponent."""
    rows: list[Row] = []
    found: list[Finding] = []
    total, done = len(widths) * len(lengths) * len(seeds), 0
    for d in widths:
        scales: dict[int, list[float]] = {}
        most = 0
        for length in lengths:
            scales[length] = []
            for seed in seeds:
                progress(done, total, "fits")
                done += 1
                target = make(pattern, length, np.random.default_rng(seed))
                most = max(most, max_keys_per_row(target))
                scales[length] += smallest_logit_scales_of_fit_methods(
                    target, methods, replace(request, d=d), seed
                )
            keys: dict[str, Scalar] = {"d": d, "length": length}
            rows.append(summarize_values("logit_scale", "logit", scales[length], "not found", keys))
        rows += build_logit_growth_rows(d, scales, most)
        found.append(Finding(f"d = {d}", describe_logit_growth_exponent(rows, d)))
    progress(total, total, "fits")
    return Report(
        study="approximate scale growth",
        headline=f"{pattern}: logit scale ∝ n^e at length n: "
        + "; ".join(f"at {finding.about} {finding.text}" for finding in found)
        + ".",
        rows=tuple(rows),
        metrics=SCALE_METRICS,
        source={
            "kind": "patterns",
            "request": request.describe_fit_request(),
            "methods": list(methods),
        },
        input={"patterns": [pattern], "widths": list(widths), "points": list(lengths)},
        seeds=tuple(seeds),
        views=(
            View("Smallest logit scale found", "length", ("logit_scale",), across="d"),
            View("Its exponent in n", "d", ("scale_exponent", "permutation_exponent")),
        ),
        findings=tuple(found),
        verdicts=build_failed_fit_verdicts(
            (
                f"{pattern} at d = {row.keys['d']}, length {row.keys['length']}",
                "no method found a module",
            )
            for row in rows
            if row.metric == "logit_scale" and row.value is None
        ),
    )


def smallest_logit_scales_of_fit_methods(
    target: csr_array, methods: Sequence[str], request: FitRequest, seed: int
) -> list[float]:
    """Return the smallest logit scale among the methods that meet the request; empty if none does."""
    attempts = [try_fit_at_width(method, target, request, [seed]) for method in methods]
    reached = [a.evidence.logit_scale for a in attempts if a.met and a.evidence is not None]
    return [min(reached)] if reached else []


def build_logit_growth_rows(d: int, scales: dict[int, list[float]], most: int) -> Iterator[Row]:
    """Rows with the slope of ln scale over ln n; for one key per row, the law as well."""
    keys: dict[str, Scalar] = {"d": d}
    points = [(length, scale) for length, found in scales.items() for scale in found]
    if len({length for length, _ in points}) < FEWEST_LENGTHS:
        yield Row("scale_exponent", None, "1", note=TOO_FEW, keys=keys)
    else:
        lengths, values = (
            np.log(np.array(part, dtype=float)) for part in zip(*points, strict=True)
        )
        design = np.stack([np.ones_like(lengths), lengths], axis=1)
        (_, slope), error = solve_least_squares(design, values)
        yield Row("scale_exponent", float(slope), "1", spread=error, n=len(points), keys=keys)
    if most == 1 and d > 1:
        yield Row(
            "permutation_exponent", compute_permutation_logit_scale_exponent(d), "1", keys=keys
        )


def describe_logit_growth_exponent(rows: Sequence[Row], d: int) -> str:
    """`e = 0.67 (theory: 0.667)`."""
    values = {row.metric: row.value for row in rows if row.keys == {"d": d}}
    slope, law = values["scale_exponent"], values.get("permutation_exponent")
    text = TOO_FEW if slope is None else f"e = {format_number(slope)}"
    return text if law is None else f"{text} (theory: {format_number(law)})"
