"""Single paths: how large each one's part of the output is, and how close its attention product is to rank 1."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import NamedTuple

import numpy as np

from attncli.analysis.bootstrap_quantile_errors import bootstrap_quantile_errors
from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.analysis.paths.path_selection import Path, residual_path_length, sample_residual_path
from attncli.commands.paths.synthetic.metrics_by_path_length import log10_frobenius_norm
from attncli.commands.paths.synthetic.output_by_path_length import (
    iterate_layers_with_fixed_maps,
    require_memory_for_residual_streams,
)
from attncli.errors import format_count
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.curve_fits.rank_collapse_regime import find_rate_of_single_exponential
from attncli.maths.number_format import format_power_of_ten, format_short_number
from attncli.metrics.log10_residual import log10_residual
from attncli.networks.ablation_variants import VARIANTS
from attncli.networks.frozen_attention_layers import LayerWithFrozenMaps
from attncli.networks.network_weights import Network
from attncli.progress import Progress, ignore_progress
from attncli.records import Definition, Facts, Finding, JsonObject, Report, Row, Scalar, View

RESIDUAL, NORM = "log10_path_residual", "log10_path_norm"

OWN_METRICS: Mapping[str, Definition] = {
    RESIDUAL: Definition(
        "log10",
        "log10 ‖P - 1p̄^T‖ / ‖P‖ in the norm √(‖·‖_1 ‖·‖_∞), P the product of the path's attention matrices.",
    ),
    NORM: Definition(
        "log10", "log10 ‖P X W‖_F / ‖Y‖_F: the path's term relative to the whole output."
    ),
}

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SURE = 1.96
"""Standard errors."""

LOST = "zero, or beyond float range"


class PathMeasurements(NamedTuple):
    """The two numbers of one path."""

    residual: float
    norm: float | None
    """Norm of the path; None where only the attention product is known."""


class NetworkWithFrozenAttention(NamedTuple):
    """A network after its full pass."""

    start: SplitState
    layers: Sequence[LayerWithFrozenMaps]
    output: SplitState


def fix_attention_and_norm_statistics(network: Network, variant: str) -> NetworkWithFrozenAttention:
    spec = network.spec
    require_memory_for_residual_streams(
        spec, streams=2 + spec.tokens // spec.width, layers_in_memory=spec.layers
    )
    where = f"{variant}, seed {network.seed}"
    passed = list(iterate_layers_with_fixed_maps(network, VARIANTS[variant], where))
    start = SplitState.from_states(network.embeddings()).to_split_form()
    return NetworkWithFrozenAttention(start, [layer for _, layer in passed], passed[-1][0])


def propagate_and_measure_path(path: Path, network: NetworkWithFrozenAttention) -> PathMeasurements:
    """One path from the embeddings to the output."""
    term, product = (
        network.start,
        SplitState.from_states(np.eye(network.start.tokens)).to_split_form(),
    )
    for choice, layer in zip(path, network.layers, strict=True):
        if choice == 0:
            term = layer.apply_skip_connection(term)
        else:
            term = layer.apply_attention_branch(term, head=choice - 1)
            product = layer.attention_branch_per_head[choice - 1].apply_attention_map_of_head(
                product
            )
    size = log10_frobenius_norm(term.states) - log10_frobenius_norm(network.output.states)
    return PathMeasurements(log10_residual(product), size)


def measure_requested_network_paths(
    networks: Sequence[Network],
    skip: bool,
    paths: Sequence[Path],
    source: Facts,
    progress: Progress = ignore_progress,
) -> Report:
    """Measure the requested single paths."""
    variant = "SAN+skip" if skip else "SAN"
    found: dict[Path, list[PathMeasurements]] = {path: [] for path in paths}
    for done, network in enumerate(networks):
        passed = fix_attention_and_norm_statistics(network, variant)
        for path in found:
            found[path].append(propagate_and_measure_path(path, passed))
        progress(done + 1, len(networks), "networks")
    rows = tuple(
        row
        for path, singles in found.items()
        for row in build_report_rows_of_path(path, singles, variant)
    )
    title = f"{variant}: single paths"
    return build_single_paths_report(
        rows, OWN_METRICS, title, describe_networks_and_variant(networks, variant, source)
    )


def build_single_paths_report(
    rows: tuple[Row, ...], metrics: Mapping[str, Definition], title: str, about: Facts
) -> Report:
    """On single paths of networks or of a model, which `about` describes; the first of them in words."""
    first = rows[0]
    normed = any(row.metric == NORM for row in rows)
    size = (
        f", log10 of its part of the output's norm {format_path_metric_value(rows, NORM)}"
        if normed
        else ""
    )
    return Report(
        study="paths",
        headline=f"Path {first.keys['path']} (length {first.keys['length']}): "
        f"log10 distance of its attention product to rank 1 {format_path_metric_value(rows, RESIDUAL)}{size}.",
        rows=rows,
        metrics=metrics,
        views=(View(title, "path", (RESIDUAL, NORM)),),
        **about,
    )


def format_path_metric_value(rows: Sequence[Row], metric: str) -> str:
    value = next(row.value for row in rows if row.metric == metric)
    return "not to be had" if value is None else format_short_number(value, 3)


def build_report_rows_of_path(
    path: Path, singles: Sequence[PathMeasurements], variant: str
) -> Iterator[Row]:
    keys: dict[str, Scalar] = {
        "path": ",".join(map(str, path)),
        "length": residual_path_length(path),
    }
    for metric, values in collect_path_metrics(singles):
        yield summarize_values(metric, "log10", values, LOST, keys, variant=variant)


def collect_path_metrics(singles: Sequence[PathMeasurements]) -> Iterator[tuple[str, list[float]]]:
    yield RESIDUAL, [one.residual for one in singles]
    norms = [one.norm for one in singles if one.norm is not None]
    if norms:
        yield NORM, norms


def describe_networks_and_variant(
    networks: Sequence[Network], variant: str, source: Facts
) -> JsonObject:
    """The description of synthetic networks in every report."""
    spec = networks[0].spec
    return {
        "source": {
            **source,
            "network": asdict(spec) | {"key_width": spec.head_width},
            "variant": variant,
        },
        "input": {"tokens": spec.tokens},
        "seeds": tuple(network.seed for network in networks),
    }


def measure_sampled_network_paths(
    networks: Sequence[Network],
    skip: bool,
    samples: int,
    source: Facts,
    progress: Progress = ignore_progress,
) -> Report:
    """Random paths of every length: layers without replacement, heads uniformly."""
    spec, variant = networks[0].spec, "SAN+skip" if skip else "SAN"
    lengths = range(1, spec.layers + 1) if skip else [spec.layers]
    found: dict[int, list[PathMeasurements]] = {length: [] for length in lengths}
    done, steps = 0, len(networks) * len(found) * samples
    for network in networks:
        passed = fix_attention_and_norm_statistics(network, variant)
        stream = np.random.default_rng([network.seed, spec.layers, spec.heads])
        heads = [spec.heads] * spec.layers
        for length, singles in found.items():
            for _ in range(samples):
                singles.append(
                    propagate_and_measure_path(sample_residual_path(stream, heads, length), passed)
                )
                done += 1
                progress(done, steps, "paths")
    rows = tuple(
        row
        for length, singles in found.items()
        for row in build_path_quantile_rows(length, singles, variant)
    )
    paths = samples * len(networks)
    return build_sampled_paths_report(
        rows, OWN_METRICS, variant, paths, describe_networks_and_variant(networks, variant, source)
    )


def build_sampled_paths_report(
    rows: tuple[Row, ...], metrics: Mapping[str, Definition], variant: str, paths: int, about: Facts
) -> Report:
    """Report on this many random paths of each length, of networks or of a model; `about` describes
    the source."""
    finding = Finding(variant, describe_rank_one_residual_decay(rows))
    title = f"{variant}: quantiles of {{}} over {format_count(paths, 'random path')} of each length"
    return Report(
        study="paths",
        headline=finding.text,
        rows=rows,
        metrics=metrics,
        views=tuple(
            View(title.format(name), "length", (name,), across="quantile") for name in metrics
        ),
        findings=(finding,),
        **about,
    )


def build_path_quantile_rows(
    length: int, singles: Sequence[PathMeasurements], variant: str
) -> Iterator[Row]:
    for metric, values in collect_path_metrics(singles):
        finite = bool(np.isfinite(values).all())
        errors = bootstrap_quantile_errors(values, QUANTILES)
        for quantile in QUANTILES:
            value = float(np.quantile(values, quantile)) if finite else None
            error = {"error": errors[quantile]} if quantile in errors else {}
            yield Row(
                metric,
                value,
                "log10",
                variant,
                n=len(values),
                note=None if finite else LOST,
                keys={"length": length, "quantile": quantile, **error},
            )


class Median(NamedTuple):
    """Of log10_path_residual, with its standard error."""

    value: float
    error: float

    def is_significantly_above(self, other: "Median") -> bool:
        return self.value - other.value > SURE * math.hypot(self.error, other.error)

    def format_with_error_range(self) -> str:
        reach = SURE * self.error
        around = (
            f" ({format_power_of_ten(self.value - reach)} to {format_power_of_ten(self.value + reach)})"
            if reach
            else ""
        )
        return f"{format_power_of_ten(self.value)}{around}"


def describe_rank_one_residual_decay(rows: Sequence[Row]) -> str:
    """How the median falls with length, in words."""
    middle = [
        row
        for row in rows
        if row.metric == RESIDUAL and row.keys["quantile"] == 0.5 and row.value is not None
    ]
    medians = {
        int(row.keys["length"]): Median(row.value or 0.0, float(row.keys.get("error", 0.0)))
        for row in middle
    }
    if not medians:
        return "Attention products of the sampled paths have exactly rank 1."
    first, last = min(medians), max(medians)
    if first == last:
        return f"Every path has length {last}: median distance to rank 1 {medians[last].format_with_error_range()}."
    if any(row.n == 1 for row in middle):
        return (
            "One random path of each length is too few to compare lengths: distance to rank 1 "
            f"{format_power_of_ten(medians[first].value)} at length {first}; {format_power_of_ten(medians[last].value)} at length {last}."
        )
    values = {length: median.value for length, median in medians.items()}
    return (
        f"{describe_rank_trend_over_path_length(list(medians.values()))}: median distance {medians[first].format_with_error_range()} at length {first}; "
        f"{medians[last].format_with_error_range()} at length {last}{describe_rank_one_decay_rate(values)}."
    )


def describe_rank_trend_over_path_length(medians: Sequence[Median]) -> str:
    """From the order of all pairs of lengths, of which two thirds must agree, each by more than its error."""
    pairs = list(combinations(medians, 2))
    if 3 * sum(before.is_significantly_above(after) for before, after in pairs) > 2 * len(pairs):
        return "Longer paths are closer to rank 1"
    if 3 * sum(after.is_significantly_above(before) for before, after in pairs) > 2 * len(pairs):
        return "Longer paths are farther from rank 1"
    return "The distance to rank 1 has no clear trend with the length"


def describe_rank_one_decay_rate(medians: Mapping[int, float]) -> str:
    """The factor, where one explains all lengths."""
    curve = [medians.get(length, math.nan) for length in range(min(medians), max(medians) + 1)]
    factor = find_rate_of_single_exponential(curve)
    return "" if factor is None else f", × {format_power_of_ten(factor)} with every head"
