"""Sentences of a rank-collapse study: the regime of every variant, and what explains it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attncli.analysis.states.trajectories import (
    RESIDUAL,
    RESIDUAL_NORM,
    Ensemble,
    Trajectory,
    is_bound_applicable,
)
from attncli.maths.curve_fits.collapse_regime import describe_regime
from attncli.networks.spec import NetworkSpec
from attncli.networks.variants import AblationSwitches
from attncli.records import Finding


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
    for name, curve in average_curves(ensemble).items():
        known = explanations[name]
        text = describe_regime(curve, known.support, known.drag)
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


def average_curves(ensemble: Ensemble) -> dict[str, list[float]]:
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
