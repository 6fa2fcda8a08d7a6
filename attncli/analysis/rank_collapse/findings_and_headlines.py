"""Sentences of a rank-collapse study: the regime of every variant and what explains it; of the metrics of depth the
growth of the variance, the rise of the energy, and how long clusters and spikes last; and the headline, which variant collapses most, which one
holds best, and where each ends."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attncli.analysis.rank_collapse.metrics_over_layers import (
    EXACT,
    RESIDUAL,
    RESIDUAL_NORM,
    Ensemble,
    Trajectory,
)
from attncli.maths.curve_fits.growth_over_depth import (
    FEWEST,
    classify_growth_over_depth,
    find_layers_where_number_decreases,
    iter_layer_ranges_of_constant_count,
)
from attncli.maths.curve_fits.rank_collapse_regime import (
    DOUBLY,
    NAMES,
    describe_collapse_regime,
    find_order_of_double_exponential,
)
from attncli.maths.number_format import format_number, format_short_number
from attncli.networks.ablation_variants import AblationSwitches, is_collapse_bound_applicable
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


def describe_regime_of_each_variant(
    ensemble: Ensemble, explanations: Mapping[str, RegimeExplanation]
) -> Iterator[Finding]:
    """The regime of every variant, in words."""
    for name, curve in average_residual_curves(ensemble).items():
        known = explanations[name]
        text = describe_collapse_regime(curve, known.support, known.drag)
        yield Finding(name, f"{text}; {known.promise}" if known.promise else text)


def explain_network_variants(
    ensemble: Ensemble, spec: NetworkSpec, variants: Mapping[str, AblationSwitches]
) -> dict[str, RegimeExplanation]:
    """Explain the variants of synthetic networks from their specification."""
    return {
        name: RegimeExplanation(
            describe_what_prevents_collapse(switches),
            describe_what_slows_collapse(spec, switches),
            describe_theorem_bound(ensemble[name])
            if is_collapse_bound_applicable(spec, switches)
            else "",
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


def describe_variance_growth(curve: Sequence[float]) -> str:
    """Describe the growth of the variance, or that it has no clear trend; empty for few layers."""
    found = classify_growth_over_depth(curve[1:])
    if found is None:
        return "" if len(curve) <= FEWEST else "variance neither grows nor falls steadily"
    return f"variance {found.describe_depth_growth()}"


def describe_interaction_energy(curve: Sequence[float]) -> str:
    layers = find_layers_where_number_decreases(curve)
    if not layers:
        return "the interaction energy never falls"
    named = ", ".join(map(str, layers[:6])) + (" …" if len(layers) > 6 else "")
    return f"the interaction energy falls after layer{'s' if len(layers) > 1 else ''} {named}"


def describe_clusters(curve: Sequence[float]) -> str:
    found = [
        f"{count:g} from layer {first} to {last}"
        for first, last, count in iter_layer_ranges_of_constant_count(curve)
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
    VARIANCE: describe_variance_growth,
    ENERGY: describe_interaction_energy,
    CLUSTERS: describe_clusters,
    SPIKE: describe_activation_spike,
}


def format_headline(ensemble: Ensemble, findings: Sequence[Finding]) -> str:
    """The variant that collapses most, and the one whose residual decays least."""
    regimes = {finding.about: finding.text.partition(";")[0] for finding in findings}
    means = average_residual_curves(ensemble)
    by_end = sorted(means, key=lambda name: find_last_layer_with_value(means[name])[1])
    worst, best = by_end[0], by_end[-1]
    text = f"{worst}: {describe_residual_of_last_layer(means[worst])}, {format_collapse_regime(regimes[worst], means[worst])}"
    if best != worst:
        text += f"; {best}: {describe_residual_of_last_layer(means[best])}, {regimes[best]}"
    return text + "."


def find_last_layer_with_value(curve: Sequence[float]) -> tuple[int, float]:
    """The last layer with a number, and that; infinity counts as one."""
    known = [(layer, value) for layer, value in enumerate(curve) if not math.isnan(value)]
    return known[-1] if known else (len(curve) - 1, math.nan)


def describe_residual_of_last_layer(curve: Sequence[float]) -> str:
    layer, value = find_last_layer_with_value(curve)
    if math.isfinite(value):
        return f"log10 r = {format_number(value)} at layer {layer}"
    return f"r = 0 at layer {layer}" if value < 0 else f"r at layer {layer}"


def format_collapse_regime(regime: str, curve: Sequence[float]) -> str:
    """The regime, and the order of a doubly exponential one, where its name is a word."""
    order = find_order_of_double_exponential(curve)
    if order is None or not regime.startswith(tuple(NAMES.values())):
        return regime
    return regime.replace(DOUBLY, f"{DOUBLY} (order {order:.2f})", 1)


RANDOM_SUFFIX = "@random"
"""`SAN@random`: the same variant of the same architecture with random weights."""


def format_stack_and_variant(stack: str, variant: str, ensembles: Mapping[str, Ensemble]) -> str:
    """The variant, and the stack where there are several."""
    return variant if len(ensembles) == 1 else f"{stack} {variant}"


def describe_residuals_lost_to_rounding(layer: int, trajectories: Sequence[Trajectory]) -> str:
    arithmetic = combine_arithmetic_names(trajectories)
    if arithmetic != EXACT:
        return f"not known in {arithmetic} from layer {layer} on"
    if any(one.unknown and one.unknown[RESIDUAL][layer] for one in trajectories):
        return f"not known from layer {layer} on: the last bits of the numbers decide it"
    return f"not resolved from layer {layer} on: tokens coincide to the last bit"


def find_first_layer_without_value(curve: Sequence[float]) -> int | None:
    """The first layer whose residual is lost to rounding."""
    return next((i for i, value in enumerate(curve) if math.isnan(value)), None)


def format_model_headline(ensembles: Mapping[str, Ensemble], findings: Sequence[Finding]) -> str:
    """For every stack, the variant that collapses most and the one that holds best, as far as they
    are known.

    The user's own model comes first; of the random-init model only the ends of the same variants are given.
    """
    regimes = {finding.about: finding.text.partition(";")[0] for finding in findings}
    parts, random = [], []
    for stack, ensemble in ensembles.items():
        means = average_residual_curves(ensemble)
        extremes = find_extreme_variants(
            [name for name in means if not is_random_init_variant(name)], means
        )
        for name in extremes:
            title = format_stack_and_variant(stack, name, ensembles)
            end, known = (
                describe_last_layer_of_model(means[name], ensemble[name]),
                slice_layers_with_values(means[name]),
            )
            regime_text = f", {format_collapse_regime(regimes[title], known)}" if known else ""
            parts.append(f"{title}: {end}{'' if end.endswith(regimes[title]) else regime_text}")
        for name in extremes:
            drawn = name + RANDOM_SUFFIX
            if drawn in means:
                end = describe_last_layer_of_model(means[drawn], ensemble[drawn])
                random.append(f"{format_stack_and_variant(stack, name, ensembles)} {end}")
    random_init = [f"with random weights {', '.join(random)}"] if random else []
    return "; ".join([*parts, *random_init]) + "."


def is_random_init_variant(variant: str) -> bool:
    return variant.endswith(RANDOM_SUFFIX)


def slice_layers_with_values(curve: Sequence[float]) -> Sequence[float]:
    return curve[: find_first_layer_without_value(curve)]


def find_extreme_variants(names: Sequence[str], means: Mapping[str, Sequence[float]]) -> list[str]:
    """The variant that ends lowest and the one that ends highest; one name where they are the same."""
    ends = sorted(names, key=lambda name: (slice_layers_with_values(means[name]) or [0.0])[-1])
    return list(dict.fromkeys([*ends[:1], *ends[-1:]]))


def describe_last_layer_of_model(curve: Sequence[float], trajectories: Sequence[Trajectory]) -> str:
    """Describe where the curve ends, or where it is last known."""
    layer = find_first_layer_without_value(curve)
    if layer is None:
        return describe_residual_of_last_layer(curve)
    unknown = describe_residuals_lost_to_rounding(layer, trajectories)
    return f"{describe_residual_of_last_layer(curve[:layer])} and {unknown}" if layer else unknown


def combine_arithmetic_names(trajectories: Sequence[Trajectory]) -> str:
    """Exact, if it is so of every text."""
    return next((one.arithmetic for one in trajectories if one.arithmetic != EXACT), EXACT)
