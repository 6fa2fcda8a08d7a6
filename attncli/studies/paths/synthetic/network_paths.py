"""`attn paths` on synthetic networks: how much of the output travels through paths of each length?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attncli.maths.noise import mean
from attncli.maths.path_counts import log10_of_integer, path_counts, shares
from attncli.networks.variants import VARIANTS
from attncli.networks.weights import Network
from attncli.records import NOT_APPLICABLE, Finding, Report, Row, View
from attncli.studies import Progress, no_progress
from attncli.studies.paths.path_words import (
    OWN_METRICS,
    cancelling,
    carried,
    definitions,
    headline_of,
)
from attncli.studies.paths.synthetic.path_measures import (
    CUMULATIVE,
    ERROR,
    NORM_SHARE,
    OF_THE_SKIP,
    OUTPUT_SHARE,
    MeasuredTerms,
    measured,
    running_sums,
)
from attncli.studies.paths.synthetic.path_samples import about
from attncli.studies.paths.synthetic.path_terms import decomposed
from attncli.studies.statistics import averaged, summary_row
from attncli.studies.trajectories import require_days

TOLERANCE = 1e-10
"""The largest completeness error that is still rounding in float64."""

MOST_DIGITS = 1000
"""Of a number that a note spells out; Python itself refuses some thousands."""

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


def count_rows(counts: dict[int, int], variant: str) -> Iterator[Row]:
    """Exact integers, in the note where a float cannot hold them."""
    for (length, count), share in zip(counts.items(), shares(counts).values(), strict=True):
        at: dict[str, Any] = {"variant": variant, "keys": {"length": length}}
        yield count_row(count, at)
        yield Row("log10_path_count", log10_of_integer(count), "log10", **at)
        yield Row("path_count_share", share, "1", **at)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """By length, as the tables go down; without skips biases begin paths of lengths that nothing else has."""
    return sorted(rows, key=lambda row: int(row.keys["length"]))


def count_row(count: int, at: dict[str, Any]) -> Row:
    if log10_of_integer(count) > 308:
        exact = log10_of_integer(count) < MOST_DIGITS
        told = f"exactly {count}" if exact else "its logarithm is log10_path_count"
        note = f"{NOT_APPLICABLE}beyond float range: {told}"
        return Row("path_count", None, "paths", note=note, **at)
    inexact = int(float(count)) != count
    return Row(
        "path_count", float(count), "paths", note=f"exactly {count}" if inexact else None, **at
    )


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


def count_paths(
    layers: int,
    heads: int,
    skip: bool,
    source: Mapping[str, Any],
    progress: Progress = no_progress,
) -> Report:
    """The number of paths of each length, from sizes alone."""
    counts = path_counts(layers, heads, skip)
    most = max(shares(counts).items(), key=lambda item: item[1])
    variant = "SAN+skip" if skip else "SAN"
    names = ("path_count", "log10_path_count", "path_count_share")
    return Report(
        study="paths",
        headline=f"{sum(counts.values()):.4g} paths; most have length {most[0]}: a share of {most[1]:.3f}."
        if log10_of_integer(sum(counts.values())) < 308
        else f"10^{log10_of_integer(sum(counts.values())):.1f} paths; most have length {most[0]}: a share of {most[1]:.3f}.",
        rows=tuple(count_rows(counts, variant)),
        metrics={name: OWN_METRICS[name] for name in names},
        source={**source, "layers": layers, "heads": heads, "variant": variant},
        views=(
            View(f"{variant}: {layers} layers of {heads} heads", "length", names),
            View("Share of all paths", "length", ("path_count_share",), across="variant"),
        ),
    )
