"""`attn paths` on synthetic networks: how much of the output travels through paths of each length?"""

from collections.abc import Iterator, Sequence

from attncli.analysis.means_and_confidence_intervals import describe_averaging, summarize_values
from attncli.analysis.paths.path_count_rows import build_path_count_rows, sort_path_counts_by_length
from attncli.analysis.paths.path_metrics import (
    OWN_METRICS,
    describe_cancelling_paths,
    describe_short_paths,
    format_headline,
    metric_definitions,
)
from attncli.analysis.rank_collapse.network_variant_runs import refuse_work_of_many_days
from attncli.commands.paths.synthetic.metrics_by_path_length import (
    CUMULATIVE,
    ERROR,
    NORM_SHARE,
    OF_THE_SKIP,
    OUTPUT_SHARE,
    PathTermMeasurements,
    accumulate_shares_by_path_length,
    measure_terms_by_path_length,
)
from attncli.commands.paths.synthetic.output_by_path_length import decompose_network_output
from attncli.commands.paths.synthetic.single_paths import describe_networks_and_variant
from attncli.maths.network_path_counts import (
    compute_share_of_paths_per_length,
    count_paths_by_length,
)
from attncli.maths.significance_tests import mean
from attncli.networks.ablation_variants import VARIANTS
from attncli.networks.network_weights import Network
from attncli.progress import Progress, ignore_progress, make_progress_counter
from attncli.records import Facts, Finding, Report, Row, View
from attncli.tolerances import COMPLETENESS

BEYOND = "zero, or beyond float range"

COLUMNS = ("path_count", "path_count_share", NORM_SHARE, CUMULATIVE, OUTPUT_SHARE, ERROR)


def measure_paths_of_synthetic_networks(
    networks: Sequence[Network],
    skip: bool,
    metrics: Sequence[str],
    source: Facts,
    progress: Progress = ignore_progress,
) -> Report:
    """Networks of attention alone that differ in their seed, decomposed by path length."""
    spec = networks[0].spec
    variant = "SAN+skip" if skip else "SAN"
    refuse_work_of_many_days([spec], len(networks) * (spec.layers + 1), 1)
    found = decompose_networks_by_path_length(networks, variant, metrics, progress)
    counts = count_paths_by_length(spec.layers, spec.heads, skip)
    finding = build_path_length_finding(variant, found, counts)
    return Report(
        study="paths",
        headline=format_headline([finding]),
        rows=(
            *sort_path_counts_by_length(
                [*build_path_count_rows(counts, variant), *build_path_length_rows(found, variant)]
            ),
            *build_completeness_and_cancellation_rows(found, variant),
        ),
        metrics=metric_definitions(metrics),
        views=tuple(build_network_path_length_tables(metrics, variant, len(networks))),
        findings=(finding,),
        **describe_networks_and_variant(networks, variant, source),
    )


def decompose_networks_by_path_length(
    networks: Sequence[Network], variant: str, metrics: Sequence[str], progress: Progress
) -> list[PathTermMeasurements]:
    layers = len(networks) * networks[0].spec.layers
    count_layer = make_progress_counter(progress, layers, "layers")
    found = []
    for network in networks:
        where = f"{variant}, seed {network.seed}"
        terms = decompose_network_output(network, VARIANTS[variant], where, count_layer)
        found.append(
            measure_terms_by_path_length(
                terms, metrics, where, COMPLETENESS.tolerance_for_dtype("float64")
            )
        )
    return found


def build_path_length_finding(
    about: str, measurements: Sequence[PathTermMeasurements], counts: dict[int, int]
) -> Finding:
    """The headline's sentence, from means over seeds or texts."""
    up_to = mean_metric_by_path_length(measurements, CUMULATIVE)
    by_count = accumulate_shares_by_path_length(compute_share_of_paths_per_length(counts))
    known = {length: by_count.get(length, 0.0) for length in up_to}
    text = describe_short_paths(up_to, known, mean_metric_by_path_length(measurements, ERROR))
    cancellation = mean([one.cancellation for one in measurements])
    return Finding(about, text + describe_cancelling_paths(cancellation))


def mean_metric_by_path_length(
    measurements: Sequence[PathTermMeasurements], metric: str
) -> dict[int, float]:
    lengths = measurements[0].by_length[metric]
    return {
        length: mean([one.by_length[metric][length] for one in measurements]) for length in lengths
    }


def build_path_length_rows(
    measurements: Sequence[PathTermMeasurements], variant: str
) -> Iterator[Row]:
    for metric, by_length in measurements[0].by_length.items():
        unit = find_path_metric_unit(metric)
        for length in by_length:
            values = [one.by_length[metric][length] for one in measurements]
            keys = {"length": length}
            yield summarize_values(metric, unit, values, BEYOND, keys, variant=variant)


def find_path_metric_unit(metric: str) -> str:
    known = OWN_METRICS.get(metric)
    return known.unit if known else metric_definitions([metric])[metric].unit


def build_completeness_and_cancellation_rows(
    measurements: Sequence[PathTermMeasurements], variant: str
) -> Iterator[Row]:
    for metric, values in (
        ("completeness_error", [one.completeness for one in measurements]),
        ("completeness_error_residual", [one.completeness_of_residual for one in measurements]),
        ("cancellation", [one.cancellation for one in measurements]),
    ):
        yield summarize_values(metric, "1", values, BEYOND, variant=variant)
    for metric in OF_THE_SKIP:
        if all(one.of_skip for one in measurements):
            values = [one.of_skip[metric] for one in measurements]
            yield summarize_values(metric, "1", values, BEYOND, variant=variant)


def build_network_path_length_tables(
    metrics: Sequence[str], variant: str, seeds: int
) -> Iterator[View]:
    over = describe_averaging(seeds, "seeds")
    yield View(f"{variant}: terms by path length{over}", "length", (*COLUMNS, *metrics))
    yield from build_variant_comparison_tables()


def build_variant_comparison_tables() -> Iterator[View]:
    yield View("Share of the summed norms", "length", (NORM_SHARE,), across="variant")
    yield View(
        "Do the terms add up to the output?",
        "variant",
        ("completeness_error", "completeness_error_residual", "cancellation"),
    )
    yield View("What keeps tokens apart, of ‖Y‖", "variant", OF_THE_SKIP)
