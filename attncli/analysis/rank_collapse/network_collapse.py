"""`attn rank-collapse` on synthetic networks: how fast does the residual to rank 1 decay, and what holds it up?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from attncli.analysis.means_and_confidence_intervals import (
    NOTHING,
    describe_averaging,
    summarize_values,
)
from attncli.analysis.rank_collapse.collapse_bound_rows import (
    THEOREM_METRICS,
    evaluate_collapse_bound_on_network,
)
from attncli.analysis.rank_collapse.findings_and_headlines import (
    build_depth_findings,
    describe_regime_of_each_variant,
    explain_network_variants,
    format_headline,
)
from attncli.analysis.rank_collapse.metrics_over_layers import (
    BEYOND,
    ORDER,
    REGIMES,
    RESIDUAL,
    RESIDUAL_NORM,
    Ensemble,
    Trajectory,
    build_convergence_order_rows,
    build_state_metric_rows,
    find_state_or_step_metric_definition,
)
from attncli.analysis.rank_collapse.network_variant_runs import (
    refuse_work_of_many_days,
    run_network_in_all_variants,
)
from attncli.maths import rank_collapse_bound
from attncli.networks.ablation_variants import (
    AblationSwitches,
    is_collapse_bound_applicable,
    select_switches_of_networks,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import Network
from attncli.progress import Progress, ignore_progress, make_progress_counter
from attncli.records import NOT_APPLICABLE, Definition, Facts, JsonObject, Report, Row, Scalar, View

OWN_METRICS: Mapping[str, Definition] = {
    "order": ORDER,
    "residual_start": Definition(
        "norm", "‖X_0 - 1x̄^T‖ in the norm √(‖·‖_1 ‖·‖_∞), to compare with contraction_radius."
    ),
    "contraction_radius": Definition(
        "norm", "(4βHλ/√d)^(-1/2): the bound (γ = 1 form) contracts only residuals below it."
    ),
    "log10_bound": Definition(
        "log10", "The theorem's bound (γ = 1 form) on log10_residual_norm from state 0 alone."
    ),
}
"""Numbers of this study that are not measurements of one state."""

NOT_COVERED = (
    NOT_APPLICABLE
    + "the theorem covers unmasked softmax attention without skip, norm, positions or gates"
)


def measure_network_collapse(
    networks: Sequence[Network],
    variants: Mapping[str, AblationSwitches],
    metrics: Sequence[str],
    source: Facts,
    progress: Progress = ignore_progress,
    over: int = 1,
    theorem: bool = False,
) -> Report:
    """Run all variants of networks that differ only in their seed; `over`: blocks between compared
    states."""
    spec = networks[0].spec
    refuse_work_of_many_days([spec], len(networks), len(variants))
    ensemble = run_networks_in_all_variants(networks, variants, metrics, progress, over, theorem)
    findings = tuple(
        describe_regime_of_each_variant(
            ensemble, explain_network_variants(ensemble, spec, variants)
        )
    )
    more = evaluate_collapse_bound_on_network(ensemble) if theorem else ([], [], [])
    return Report(
        study="rank-collapse",
        headline=format_headline(ensemble, findings),
        rows=(*build_network_collapse_rows(ensemble, spec, variants, over=over), *more[0]),
        metrics=define_network_collapse_metrics(metrics)
        | (dict(THEOREM_METRICS) if theorem else {}),
        source=describe_networks_and_variants(source, spec, variants),
        input={"tokens": spec.tokens},
        seeds=tuple(network.seed for network in networks),
        views=(*build_curve_views(metrics, len(networks)), REGIMES, BY_VARIANT, *more[1]),
        findings=(*findings, *build_depth_findings(ensemble), *more[2]),
    )


def run_networks_in_all_variants(
    networks: Sequence[Network],
    variants: Mapping[str, AblationSwitches],
    metrics: Sequence[str],
    progress: Progress,
    over: int = 1,
    logits: bool = False,
) -> Ensemble:
    """Run every network; the residuals that the regime and the bound need are always among the metrics."""
    metrics_to_measure = add_residual_metrics(metrics)
    ensemble: dict[str, list[Trajectory]] = {name: [] for name in variants}
    total = len(networks) * networks[0].spec.layers * len(variants)
    count_layer = make_progress_counter(progress, total, "layers")
    for network in networks:
        for name, trajectory in run_network_in_all_variants(
            network, variants, metrics_to_measure, count_layer, over, logits
        ).items():
            ensemble[name].append(trajectory)
    return ensemble


def add_residual_metrics(metrics: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([RESIDUAL, *metrics, RESIDUAL_NORM]))


def define_network_collapse_metrics(metrics: Sequence[str]) -> dict[str, Definition]:
    return {
        name: find_state_or_step_metric_definition(name) for name in add_residual_metrics(metrics)
    } | dict(OWN_METRICS)


def describe_networks_and_variants(
    source: Facts, spec: NetworkSpec, variants: Mapping[str, AblationSwitches]
) -> JsonObject:
    """Everything that defines the run: the network's kinds, and the parts of each variant."""
    network = asdict(spec) | {"key_width": spec.head_width, "mlp_width": spec.mlp_hidden_size}
    return {
        **source,
        "network": network,
        "variants": {
            name: select_switches_of_networks(switches) for name, switches in variants.items()
        },
    }


def build_network_collapse_rows(
    ensemble: Ensemble,
    spec: NetworkSpec,
    variants: Mapping[str, AblationSwitches],
    keys: Mapping[str, Scalar] = NOTHING,
    over: int = 1,
) -> Iterator[Row]:
    for name, trajectories in ensemble.items():
        yield from build_state_metric_rows(name, trajectories, keys, over)
        yield from build_convergence_order_rows(name, trajectories, keys)
        yield from build_collapse_bound_rows(
            name, trajectories, is_collapse_bound_applicable(spec, variants[name]), keys
        )


def build_collapse_bound_rows(
    variant: str, trajectories: Sequence[Trajectory], applies: bool, keys: Mapping[str, Scalar]
) -> Iterator[Row]:
    """The start, the radius, and the bound at every state."""
    starts = [trajectory.values[RESIDUAL_NORM][0] for trajectory in trajectories]
    at: JsonObject = {"keys": keys, "variant": variant}
    yield summarize_values(
        "residual_start", "norm", [power_of_ten_or_inf(start) for start in starts], BEYOND, **at
    )
    if not applies:
        yield summarize_values("contraction_radius", "norm", [], NOT_COVERED, **at)
        yield summarize_values("log10_bound", "log10", [], NOT_COVERED, **at)
        return
    constants = [max(trajectory.log10_constants) for trajectory in trajectories]
    radii = [power_of_ten_or_inf(-constant / 2.0) for constant in constants]
    yield summarize_values("contraction_radius", "norm", radii, BEYOND, **at)
    for layer in range(len(trajectories[0].values[RESIDUAL_NORM])):
        values = [
            rank_collapse_bound.compute_log10_collapse_bound(constant, start, layer)
            for constant, start in zip(constants, starts, strict=True)
        ]
        yield summarize_values("log10_bound", "log10", values, BEYOND, layer=layer, **at)


def power_of_ten_or_inf(exponent: float) -> float:
    """10^x; inf where floats overflow, 0 where they underflow."""
    try:
        return float(10.0**exponent)
    except OverflowError:
        return math.inf


BY_VARIANT = View(
    title="What holds, and what the theorem promises",
    down="variant",
    metrics=("order", "residual_start", "contraction_radius", RESIDUAL_NORM, "log10_bound"),
    last_layer_only=True,
)


def build_curve_views(metrics: Sequence[str], seeds: int) -> Iterator[View]:
    over_seeds = describe_averaging(seeds, "seeds")
    for metric in metrics:
        title = f"{metric} after each layer{over_seeds}"
        yield View(title=title, down="layer", across="variant", metrics=(metric,))
