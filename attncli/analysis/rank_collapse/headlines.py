"""The headline of a rank-collapse report: which variant collapses most, which one holds best, and where each ends."""

import math
from collections.abc import Mapping, Sequence

from attncli.analysis.rank_collapse.regime_and_depth_findings import average_residual_curves
from attncli.analysis.rank_collapse.trajectories import EXACT, RESIDUAL, Ensemble, Trajectory
from attncli.maths.curve_fits.rank_collapse_regime import (
    DOUBLY,
    NAMES,
    doubly_exponential_order,
    name_convergence_order,
)
from attncli.maths.number_format import format_number
from attncli.records import Finding


def format_headline(ensemble: Ensemble, findings: Sequence[Finding]) -> str:
    """The variant that collapses most, and the one whose residual decays least."""
    regimes = {finding.about: finding.text.partition(";")[0] for finding in findings}
    means = average_residual_curves(ensemble)
    by_end = sorted(means, key=lambda name: find_last_layer_with_value(means[name])[1])
    worst, best = by_end[0], by_end[-1]
    text = f"{worst}: {describe_last_layer(means[worst])}, {format_regime(regimes[worst], means[worst])}"
    if best != worst:
        text += f"; {best}: {describe_last_layer(means[best])}, {regimes[best]}"
    return text + "."


def find_last_layer_with_value(curve: Sequence[float]) -> tuple[int, float]:
    """The last layer with a number, and that; infinity counts as one."""
    known = [(layer, value) for layer, value in enumerate(curve) if not math.isnan(value)]
    return known[-1] if known else (len(curve) - 1, math.nan)


def describe_last_layer(curve: Sequence[float]) -> str:
    layer, value = find_last_layer_with_value(curve)
    if math.isfinite(value):
        return f"log10 r = {format_number(value)} at layer {layer}"
    return f"r = 0 at layer {layer}" if value < 0 else f"r at layer {layer}"


def format_regime(regime: str, curve: Sequence[float]) -> str:
    """The regime, and the order of a doubly exponential one, where its name is a word."""
    order = doubly_exponential_order(curve)
    if order is None or name_convergence_order(order) not in NAMES.values():
        return regime
    return regime.replace(DOUBLY, f"{DOUBLY} (order {order:.2f})", 1)


RANDOM_SUFFIX = "@random"
"""`SAN@random`: the same variant of the same architecture with random weights."""


def format_variant(stack: str, variant: str, ensembles: Mapping[str, Ensemble]) -> str:
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

    The user's own model comes first; of the random-init model only the end is given.
    """
    regimes = {finding.about: finding.text.partition(";")[0] for finding in findings}
    parts, random = [], []
    for stack, ensemble in ensembles.items():
        means = average_residual_curves(ensemble)
        for name in find_extreme_variants(
            [name for name in means if not is_random_init(name)], means
        ):
            title = format_variant(stack, name, ensembles)
            end, known = (
                describe_last_layer_of_model(means[name], ensemble[name]),
                slice_layers_with_values(means[name]),
            )
            regime_text = f", {format_regime(regimes[title], known)}" if known else ""
            parts.append(f"{title}: {end}{'' if end.endswith(regimes[title]) else regime_text}")
        for name in find_extreme_variants(list(filter(is_random_init, means)), means):
            title = format_variant(stack, name.removesuffix(RANDOM_SUFFIX), ensembles)
            end = describe_last_layer_of_model(means[name], ensemble[name])
            random.append(f"{title} {end}")
    random_init = [f"with random weights {', '.join(random)}"] if random else []
    return "; ".join([*parts, *random_init]) + "."


def is_random_init(variant: str) -> bool:
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
        return describe_last_layer(curve)
    unknown = describe_residuals_lost_to_rounding(layer, trajectories)
    return f"{describe_last_layer(curve[:layer])} and {unknown}" if layer else unknown


def combine_arithmetic_names(trajectories: Sequence[Trajectory]) -> str:
    """Exact, if it is so of every text."""
    return next((one.arithmetic for one in trajectories if one.arithmetic != EXACT), EXACT)
