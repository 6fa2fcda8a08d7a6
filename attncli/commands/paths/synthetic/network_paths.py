"""`attn paths` on synthetic networks: how much of the output travels through paths of each length?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attncli.analysis import Progress, no_progress
from attncli.analysis.paths.count_rows import count_rows, in_order
from attncli.analysis.paths.path_metrics import (
    OWN_METRICS,
    cancelling,
    carried,
    definitions,
    headline_of,
)
from attncli.analysis.states.trajectories import require_days
from attncli.analysis.statistics import averaged, summary_row
from attncli.commands.paths.synthetic.path_measures import (
    CUMULATIVE,
    ERROR,
    NORM_SHARE,
    OF_THE_SKIP,
    OUTPUT_SHARE,
    MeasuredTerms,
    measured,
    running_sums,
)
from attncli.commands.paths.synthetic.path_samples import about
from attncli.commands.paths.synthetic.path_terms import decomposed
from attncli.maths.noise import mean
from attncli.maths.path_counts import path_counts, shares
from attncli.networks.variants import VARIANTS
from attncli.networks.weights import Network
from attncli.records import Finding, Report, Row, View

TOLERANCE = 1e-10
"""The largest completeness error that is still rounding in float64."""


BEYOND = "zero, or beyond float range"

COLUMNS = ("path_count", "path_count_share", NORM_SHARE, CUMULATIVE, OUTPUT_SHARE, ERROR)


def paths(
    networks: Sequence[Network],
    skip: bool,
    metrics: Sequence[str],
    source: Mapping[str, Any],
    progress: Progress = no_progress,
) -> Report:
    """Networks of attention alone that differ in their seed, decomposed by path length."""
    spec = networks[0].spec
    variant = "SAN+skip" if skip else "SAN"
    require_days([spec], len(networks) * (spec.layers + 1), 1)
    found = measure_all(networks, variant, metrics, progress)
    counts = path_counts(spec.layers, spec.heads, skip)
    finding = finding_of(variant, found, counts)
    return Report(
        study="paths",
        headline=headline_of([finding]),
        rows=(
            *in_order([*count_rows(counts, variant), *length_rows(found, variant)]),
            *completeness(found, variant),
        ),
        metrics=definitions(metrics),
        views=tuple(views(metrics, variant, len(networks))),
        findings=(finding,),
        **about(networks, variant, source),
    )


def measure_all(
    networks: Sequence[Network], variant: str, metrics: Sequence[str], progress: Progress
) -> list[MeasuredTerms]:
    done, steps = 0, len(networks) * networks[0].spec.layers

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, steps, "layers")

    found = []
    for network in networks:
        where = f"{variant}, seed {network.seed}"
        terms = decomposed(network, VARIANTS[variant], where, tick)
        found.append(measured(terms, metrics, where, TOLERANCE))
    return found


def finding_of(about: str, found: Sequence[MeasuredTerms], counts: dict[int, int]) -> Finding:
    """The headline's sentence, from means over seeds or texts."""
    up_to = means(found, CUMULATIVE)
    by_count = running_sums(shares(counts))
    known = {length: by_count.get(length, 0.0) for length in up_to}
    text = carried(up_to, known, means(found, ERROR))
    cancellation = mean([one.cancellation for one in found])
    return Finding(about, text + cancelling(cancellation))


def means(found: Sequence[MeasuredTerms], metric: str) -> dict[int, float]:
    lengths = found[0].by_length[metric]
    return {length: mean([one.by_length[metric][length] for one in found]) for length in lengths}


def length_rows(found: Sequence[MeasuredTerms], variant: str) -> Iterator[Row]:
    for metric, by_length in found[0].by_length.items():
        unit = unit_of(metric)
        for length in by_length:
            values = [one.by_length[metric][length] for one in found]
            keys = {"length": length}
            yield summary_row(metric, unit, values, BEYOND, keys, variant=variant)


def unit_of(metric: str) -> str:
    known = OWN_METRICS.get(metric)
    return known.unit if known else definitions([metric])[metric].unit


def completeness(found: Sequence[MeasuredTerms], variant: str) -> Iterator[Row]:
    for metric, values in (
        ("completeness_error", [one.completeness for one in found]),
        ("completeness_error_residual", [one.completeness_of_residual for one in found]),
        ("cancellation", [one.cancellation for one in found]),
    ):
        yield summary_row(metric, "1", values, BEYOND, variant=variant)
    for metric in OF_THE_SKIP:
        if all(one.of_skip for one in found):
            values = [one.of_skip[metric] for one in found]
            yield summary_row(metric, "1", values, BEYOND, variant=variant)


def views(metrics: Sequence[str], variant: str, seeds: int) -> Iterator[View]:
    over = averaged(seeds, "seeds")
    yield View(f"{variant}: terms by path length{over}", "length", (*COLUMNS, *metrics))
    yield from across_variants()


def across_variants() -> Iterator[View]:
    yield View("Share of the summed norms", "length", (NORM_SHARE,), across="variant")
    yield View(
        "Do the terms add up to the output?",
        "variant",
        ("completeness_error", "completeness_error_residual", "cancellation"),
    )
    yield View("What keeps tokens apart, of ‖Y‖", "variant", OF_THE_SKIP)
