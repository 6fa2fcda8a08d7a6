"""`attn rank-collapse --sweep`: the same study over a range of one size, such as the collapse in width."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from attncli.analysis.rank_collapse.network_collapse import (
    build_network_collapse_rows,
    define_network_collapse_metrics,
    run_networks_in_all_variants,
)
from attncli.analysis.rank_collapse.network_variant_runs import refuse_work_of_many_days
from attncli.analysis.rank_collapse.value_gradients import (
    DEFINITION,
    GRADIENT,
    build_value_gradient_rows,
)
from attncli.maths.number_format import format_number
from attncli.networks.ablation_variants import AblationSwitches, select_switches_of_networks
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork
from attncli.progress import Progress, ignore_progress
from attncli.records import Finding, JsonObject, Report, Row, View

SWEPT: Mapping[str, type[int] | type[float]] = {
    "tokens": int,
    "heads": int,
    "width": int,
    "layers": int,
    "init-scale": float,
}
"""Sizes that can be swept, by their names on the command line."""


def sweep_network_sizes(
    specs: Mapping[float, NetworkSpec],
    parameter: str,
    seeds: Sequence[int],
    variants: Mapping[str, AblationSwitches],
    metrics: Sequence[str],
    progress: Progress = ignore_progress,
    gradients: bool = False,
) -> Report:
    """Run one ensemble per value; every row has the value under the parameter's name."""
    refuse_work_of_many_days(list(specs.values()), len(seeds), len(variants))
    rows: list[Row] = []
    for index, (point, spec) in enumerate(specs.items()):
        networks = [GeneratedNetwork(spec, seed) for seed in seeds]
        ensemble = run_networks_in_all_variants(
            networks, variants, metrics, make_progress_of_sweep_point(progress, index, len(specs))
        )
        rows += build_network_collapse_rows(ensemble, spec, variants, {parameter: point})
        rows += (
            build_value_gradient_rows(networks, variants, {parameter: point}) if gradients else ()
        )
    findings = tuple(
        Finding(name, describe_first_and_last_point(rows, name, parameter, metrics))
        for name in variants
    )
    return Report(
        study="rank-collapse sweep",
        headline=f"Last layer, {parameter} {min(specs):g} to {max(specs):g}: "
        + "; ".join(f"{finding.about}: {finding.text}" for finding in findings)
        + ".",
        rows=tuple(rows),
        metrics=define_network_collapse_metrics(metrics)
        | ({GRADIENT: DEFINITION} if gradients else {}),
        source=describe_size_sweep(specs, variants),
        input={"sweep": parameter, "points": list(specs)},
        seeds=tuple(seeds),
        views=(
            *(build_size_sweep_view(metric, parameter) for metric in metrics),
            *([build_first_layer_view(parameter)] if gradients else []),
        ),
        findings=findings,
    )


def network_spec_at_swept_size(spec: NetworkSpec, parameter: str, point: float) -> NetworkSpec:
    change: JsonObject = {parameter.replace("-", "_"): point}
    return replace(spec, **change)


def make_progress_of_sweep_point(progress: Progress, index: int, total: int) -> Progress:
    """The progress of one point as a share of the whole sweep."""

    def report_progress(done: int, size: int, what: str) -> None:
        progress(index * size + done, total * size, what)

    return report_progress


def describe_size_sweep(
    specs: Mapping[float, NetworkSpec], variants: Mapping[str, AblationSwitches]
) -> JsonObject:
    return {
        "kind": "synthetic",
        "networks": [asdict(spec) for spec in specs.values()],
        "variants": {
            name: select_switches_of_networks(switches) for name, switches in variants.items()
        },
    }


def build_size_sweep_view(metric: str, parameter: str) -> View:
    title = f"{metric} after the last layer"
    return View(title, down=parameter, metrics=(metric,), across="variant", last_layer_only=True)


def build_first_layer_view(parameter: str) -> View:
    title = f"{GRADIENT} of the first layer"
    return View(title, down=parameter, metrics=(GRADIENT,), across="variant", where={"layer": 0})


def describe_first_and_last_point(
    rows: Sequence[Row], variant: str, parameter: str, metrics: Sequence[str]
) -> str:
    """`stable_rank 9.31 → 1.02`: the last layer's values at the first and the last point."""
    texts = []
    for metric in metrics:
        mine = [row for row in rows if row.variant == variant and row.metric == metric]
        last = {row.axis(parameter): row.value for row in mine}  # later layers overwrite earlier
        values = list(last.values())
        texts.append(
            f"{metric} {format_number_or_none(values[0])} → {format_number_or_none(values[-1])}"
        )
    return ", ".join(texts)


def format_number_or_none(value: float | None) -> str:
    return "none" if value is None else format_number(value)
