"""Sentences about the metrics of depth: growth of the variance, rise of the energy, lifetime of
clusters."""

import math
from collections.abc import Iterator, Mapping, Sequence

from attncli.analysis.states.trajectories import Ensemble, Trajectory
from attncli.maths.curve_fits.depth_growth import (
    FEWEST,
    classify_growth,
    find_decreases,
    iter_plateaus,
)
from attncli.records import Finding

VARIANCE, ENERGY, CLUSTERS, SPIKE = "log10_variance", "cluster_energy", "clusters", "spike_ratio"
SPIKES = 10.0
"""A token with at least this many times the median is reported."""


def build_depth_findings(ensemble: Ensemble, title: str = "") -> Iterator[Finding]:
    """Findings of every variant; `title` of the stack, where there are several."""
    for variant, trajectories in ensemble.items():
        curves = average_curves(trajectories)
        for metric, words in WORDS.items():
            sentence = words(curves[metric]) if metric in curves else ""
            if sentence:
                yield Finding(f"{title}{variant}", sentence)


def average_curves(trajectories: Sequence[Trajectory]) -> Mapping[str, list[float]]:
    """Means over seeds or texts, of metrics without missing numbers."""
    means = {}
    for metric in WORDS:
        if metric in trajectories[0].values:
            lines = zip(*(one.values[metric] for one in trajectories), strict=True)
            curve = [math.fsum(line) / len(line) for line in lines]
            if all(map(math.isfinite, curve)):
                means[metric] = curve
    return means


def describe_variance(curve: Sequence[float]) -> str:
    """Describe the growth of the variance, or that it has no clear trend; empty for few layers."""
    found = classify_growth(curve[1:])
    if found is None:
        return "" if len(curve) <= FEWEST else "variance neither grows nor falls steadily"
    return f"variance {found.describe_growth()}"


def describe_interaction_energy(curve: Sequence[float]) -> str:
    layers = find_decreases(curve)
    if not layers:
        return "the interaction energy never falls"
    named = ", ".join(map(str, layers[:6])) + (" …" if len(layers) > 6 else "")
    return f"the interaction energy falls after layer{'s' if len(layers) > 1 else ''} {named}"


def describe_clusters(curve: Sequence[float]) -> str:
    found = [
        f"{count:g} from layer {first} to {last}" for first, last, count in iter_plateaus(curve)
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
        f"at most {curve[top]:.3g} times after layer {top}"
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
