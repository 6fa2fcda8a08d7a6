"""Sentences of a rank-collapse study: the regime of every variant and what explains it; of the metrics of depth the
growth of the variance, the rise of the energy, and how long clusters and spikes last."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attncli.analysis.rank_collapse.trajectories import (
    RESIDUAL,
    RESIDUAL_NORM,
    Ensemble,
    Trajectory,
)
from attncli.maths.curve_fits.growth_over_depth import (
    FEWEST,
    classify_growth,
    find_layers_with_decrease,
    iter_constant_count_layers,
)
from attncli.maths.curve_fits.rank_collapse_regime import describe_collapse_regime
from attncli.maths.number_format import format_short_number
from attncli.networks.ablation_variants import AblationSwitches, is_bound_applicable
from attncli.networks.network_spec import NetworkSpec
from attncli.records import Finding

VARIANCE, ENERGY, CLUSTERS, SPIKE = "log10_variance", "cluster_energy", "clusters", "spike_ratio"
SPIKES = 10.0
"""A token with at least this many times the median is reported."""


@dataclass(frozen=True)
class RegimeExplanation:
    """What explains a variant's curve."""

    support: str
    """What can keep the residual from decaying, such as "the skip"."""
    drag: str
    """What keeps attention from becoming one common row, and so leaves a linear rate."""
    promise: str = ""
    """Whether the theorem's bound is informative, where it applies."""


def describe_regimes(
    ensemble: Ensemble, explanations: Mapping[str, RegimeExplanation]
) -> Iterator[Finding]:
    """The regime of every variant, in words."""
    for name, curve in average_residual_curves(ensemble).items():
        known = explanations[name]
        text = describe_collapse_regime(curve, known.support, known.drag)
        yield Finding(name, f"{text}; {known.promise}" if known.promise else text)


def explain_variants(
    ensemble: Ensemble, spec: NetworkSpec, variants: Mapping[str, AblationSwitches]
) -> dict[str, RegimeExplanation]:
    """Explain the variants of synthetic networks from their specification."""
    return {
        name: RegimeExplanation(
            describe_what_prevents_collapse(switches),
            describe_what_slows_collapse(spec, switches),
            describe_theorem_bound(ensemble[name]) if is_bound_applicable(spec, switches) else "",
        )
        for name, switches in variants.items()
    }


def describe_theorem_bound(trajectories: Sequence[Trajectory]) -> str:
    """Describe whether the theorem's bound is informative for these networks."""
    outside = [
        trajectory.values[RESIDUAL_NORM][0] > -max(trajectory.log10_constants) / 2.0
        for trajectory in trajectories
    ]
    if not any(outside):
        return "the theorem's bound contracts"
    return "the theorem does not apply: the input is outside its contraction radius"


def average_residual_curves(ensemble: Ensemble) -> dict[str, list[float]]:
    """Mean log10 r over the seeds or texts, per variant."""
    return {
        name: [
            sum(values) / len(values)
            for values in zip(*(t.values[RESIDUAL] for t in trajectories), strict=True)
        ]
        for name, trajectories in ensemble.items()
    }


def describe_what_prevents_collapse(switches: AblationSwitches) -> str:
    """Describe what can keep the residual from decaying."""
    parts = {
        "the skip": switches.skip,
        "the outlier removed": switches.remove_outlier,
        "the MLP": switches.mlp,
    }
    return " and ".join(part for part, on in parts.items() if on)


def describe_what_slows_collapse(spec: NetworkSpec, switches: AblationSwitches) -> str:
    """Describe what keeps attention from becoming one common row, and so leaves a linear rate."""
    parts = {
        "the skip": switches.skip,
        f"{spec.mask} mask": spec.mask != "none",
        f"{spec.positions} positions": spec.positions != "none",
        "gates": spec.attention == "gated",
    }
    return ", ".join(part for part, on in parts.items() if on)


def build_depth_findings(ensemble: Ensemble, title: str = "") -> Iterator[Finding]:
    """Findings of every variant, from means over seeds or texts of metrics without missing numbers; `title` of the
    stack, where there are several."""
    for variant, trajectories in ensemble.items():
        for metric in (name for name in WORDS if name in trajectories[0].values):
            lines = zip(*(one.values[metric] for one in trajectories), strict=True)
            curve = [math.fsum(line) / len(line) for line in lines]
            sentence = WORDS[metric](curve) if all(map(math.isfinite, curve)) else ""
            if sentence:
                yield Finding(f"{title}{variant}", sentence)


def describe_variance(curve: Sequence[float]) -> str:
    """Describe the growth of the variance, or that it has no clear trend; empty for few layers."""
    found = classify_growth(curve[1:])
    if found is None:
        return "" if len(curve) <= FEWEST else "variance neither grows nor falls steadily"
    return f"variance {found.describe_growth()}"


def describe_interaction_energy(curve: Sequence[float]) -> str:
    layers = find_layers_with_decrease(curve)
    if not layers:
        return "the interaction energy never falls"
    named = ", ".join(map(str, layers[:6])) + (" …" if len(layers) > 6 else "")
    return f"the interaction energy falls after layer{'s' if len(layers) > 1 else ''} {named}"


def describe_clusters(curve: Sequence[float]) -> str:
    found = [
        f"{count:g} from layer {first} to {last}"
        for first, last, count in iter_constant_count_layers(curve)
    ]
    return f"clusters stay: {', '.join(found)}" if found else ""


def describe_activation_spike(curve: Sequence[float]) -> str:
    """Describe where the spike rises and falls, if it does."""
    above = [state for state, ratio in enumerate(curve) if ratio >= SPIKES]
    if not above:
        return f"no token is {SPIKES:g} times as long as the median: no spike"
    top = max(range(len(curve)), key=lambda state: curve[state])
    return (
        f"a token is {SPIKES:g} times as long as the median and more {format_state_range(above)}, "
        f"at most {format_short_number(curve[top], 3)} times after layer {top}"
    )


def format_state_range(above: Sequence[int]) -> str:
    """`from state 2 to 11`"""
    if len(above) == 1:
        return f"at state {above[0]}"
    return f"from state {above[0]} to {above[-1]}"


WORDS = {
    VARIANCE: describe_variance,
    ENERGY: describe_interaction_energy,
    CLUSTERS: describe_clusters,
    SPIKE: describe_activation_spike,
}
