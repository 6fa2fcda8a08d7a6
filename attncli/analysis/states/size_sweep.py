"""`attn rank-collapse --sweep`: the same study over a range of one size, such as the collapse in width."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from attncli.analysis import Progress, no_progress
from attncli.analysis.states.network_collapse import all_rows, definitions, measure
from attncli.analysis.states.trajectories import require_days
from attncli.analysis.states.value_gradients import DEFINITION, GRADIENT, gradient_rows
from attncli.maths.digits import number
from attncli.networks.spec import NetworkSpec
from attncli.networks.variants import Switches, of_network
from attncli.networks.weights import GeneratedNetwork
from attncli.records import Finding, Report, Row, View

SWEPT: Mapping[str, type[int] | type[float]] = {
    "tokens": int,
    "heads": int,
    "width": int,
    "layers": int,
    "init-scale": float,
}
"""What can be swept, as it is spelt on the command line."""


def sweep(
    specs: Mapping[float, NetworkSpec],
    parameter: str,
    seeds: Sequence[int],
    variants: Mapping[str, Switches],
    metrics: Sequence[str],
    progress: Progress = no_progress,
    gradients: bool = False,
) -> Report:
    """One ensemble per point; every row carries the point's value under the parameter's name."""
    require_days(list(specs.values()), len(seeds), len(variants))
    rows: list[Row] = []
    for index, (point, spec) in enumerate(specs.items()):
        networks = [GeneratedNetwork(spec, seed) for seed in seeds]
        ensemble = measure(networks, variants, metrics, part_of(progress, index, len(specs)))
        rows += all_rows(ensemble, spec, variants, {parameter: point})
        rows += gradient_rows(networks, variants, {parameter: point}) if gradients else ()
    findings = tuple(Finding(name, ends(rows, name, parameter, metrics)) for name in variants)
    return Report(
        study="rank-collapse sweep",
        headline=f"Last layer, {parameter} {min(specs):g} to {max(specs):g}: "
        + "; ".join(f"{finding.about}: {finding.text}" for finding in findings)
        + ".",
        rows=tuple(rows),
        metrics=definitions(metrics) | ({GRADIENT: DEFINITION} if gradients else {}),
        source=describe_sweep(specs, variants),
        input={"sweep": parameter, "points": list(specs)},
        seeds=tuple(seeds),
        views=(
            *(view(metric, parameter) for metric in metrics),
            *([of_first_layer(parameter)] if gradients else []),
        ),
        findings=findings,
    )


def at(spec: NetworkSpec, parameter: str, point: float) -> NetworkSpec:
    change: dict[str, Any] = {parameter.replace("-", "_"): point}
    return replace(spec, **change)


def part_of(progress: Progress, index: int, total: int) -> Progress:
    """The progress of one point as a share of the whole sweep."""

    def part(done: int, size: int, what: str) -> None:
        progress(index * size + done, total * size, what)

    return part


def describe_sweep(
    specs: Mapping[float, NetworkSpec], variants: Mapping[str, Switches]
) -> dict[str, Any]:
    return {
        "kind": "synthetic",
        "networks": [asdict(spec) for spec in specs.values()],
        "variants": {name: of_network(switches) for name, switches in variants.items()},
    }


def view(metric: str, parameter: str) -> View:
    title = f"{metric} after the last layer"
    return View(title, down=parameter, metrics=(metric,), across="variant", last_layer_only=True)


def of_first_layer(parameter: str) -> View:
    title = f"{GRADIENT} of the first layer"
    return View(title, down=parameter, metrics=(GRADIENT,), across="variant", where={"layer": 0})


def ends(rows: Sequence[Row], variant: str, parameter: str, metrics: Sequence[str]) -> str:
    """`stable_rank 9.31 → 1.02`: the last layer's values at the first and the last point."""
    texts = []
    for metric in metrics:
        mine = [row for row in rows if row.variant == variant and row.metric == metric]
        last = {row.axis(parameter): row.value for row in mine}  # later layers overwrite earlier
        values = list(last.values())
        texts.append(f"{metric} {word(values[0])} → {word(values[-1])}")
    return ", ".join(texts)


def word(value: float | None) -> str:
    return "none" if value is None else number(value)
