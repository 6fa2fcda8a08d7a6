"""The theorem layer by layer: its metrics, and sentences about them."""

import math
from collections.abc import Iterator, Mapping, Sequence

from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.analysis.rank_collapse.metrics_over_layers import RESIDUAL_NORM, Ensemble
from attncli.errors import format_count
from attncli.maths.number_format import format_number
from attncli.records import Definition, Finding, Row, View

THEOREM_METRICS: Mapping[str, Definition] = {
    "beta": Definition("1", "β of a layer: max over heads of ‖W_QK‖_1 ‖W_V W_O‖_{1,∞}, as the model has them."),
    "layer_constant": Definition("1", "4βHλ/√d of a layer (γ = 1 form; λ = 1 without an MLP): the factor of its one-layer bound."),
    "layer_radius": Definition("norm", "(4βHλ/√d)^(-1/2) of a layer: its one-layer bound contracts only residuals below it."),
    "attention_residual": Definition("norm", "‖Z - 1z̄^T‖ of what the layer's attention reads, in √(‖·‖_1 ‖·‖_∞), to compare with layer_radius."),
    "logit_range": Definition("1", "Largest |E_ij - E_ij'| over heads, queries i and keys j, j', E = res(Z) W_QK res(Z)^T/√d: up to 1.256 the one-layer bound is proved, beyond it only seen to hold or not."),
    "bound_slack": Definition("log10", "Decades between the one-layer bound (4βHλ/√d) ‖res(Z)‖³ and the residual that comes out: negative where the bound is broken."),
}  # fmt: skip

PROVED_UP_TO = 1.256
"""Hypothesis of the lemma behind the one-layer bound: the largest range of a row's logits."""

BEYOND = "zero, or beyond the range of floats"


def build_collapse_bound_view(variant: str | None = None) -> View:
    """A table of the theorem's numbers."""
    of = f" of {variant}" if variant else ""
    return View(
        f"The theorem on each layer{of}",
        down="layer",
        metrics=tuple(THEOREM_METRICS) if variant is None else tuple(THEOREM_METRICS)[1:],
        where={} if variant is None else {"variant": variant},
    )


def power_of_ten_or_inf_beyond_floats(exponent: float) -> float:
    """10^x; inf beyond the range of floats in either direction, which rows show as unknown."""
    return 10.0**exponent if abs(exponent) < 300.0 else math.inf


def power_of_ten_without_underflow(exponent: float) -> float:
    """10^x; 0 where floats underflow: a bound on logits then holds even more."""
    return 0.0 if exponent < -300.0 else power_of_ten_or_inf_beyond_floats(exponent)


def log10_slack_of_collapse_bound(log10_constant: float, read: float, written: float) -> float:
    """Decades between the bound and the residual; inf where one is zero, so that nothing is claimed
    of it."""
    if not read > 0.0 or not written > 0.0:
        return math.inf
    return log10_constant + 3.0 * math.log10(read) - math.log10(written)


def describe_layers_covered_by_bound(rows: Sequence[Row]) -> str:
    """Describe in how many layers the one-layer bound holds, and by how much."""
    found = [row.value for row in rows if row.metric == "bound_slack" and row.value is not None]
    if not found:
        return "no residual to compare with the one-layer bound"
    within_bound = sum(value >= 0.0 for value in found)
    span = f"{format_number(min(found))} … {format_number(max(found))}"
    layers = format_count(len(found), "layer")
    return f"{describe_lemma_hypothesis(rows)}; it is seen to hold in {within_bound} of {layers}, by {span} decades"


def describe_lemma_hypothesis(rows: Sequence[Row]) -> str:
    """Describe in how many layers the lemma's hypothesis holds."""
    ranges = [row.value for row in rows if row.metric == "logit_range" and row.value is not None]
    if not ranges:
        return "whether the one-layer bound is proved is not known: logits are beyond floats"
    proved = sum(value <= PROVED_UP_TO for value in ranges)
    span = f"{format_number(min(ranges))} … {format_number(max(ranges))}"
    return (
        f"the one-layer bound is proved in {proved} of {format_count(len(ranges), 'layer')} "
        f"(the logits of a row may differ by up to {PROVED_UP_TO}, and do by {span})"
    )


def evaluate_collapse_bound_on_network(
    ensemble: Ensemble,
) -> tuple[list[Row], list[View], list[Finding]]:
    """Of a synthetic network: of every variant that the theorem covers, from its residuals in log space."""
    rows: list[Row] = []
    views, findings = [], []
    for variant, trajectories in ensemble.items():
        if not all(one.log10_constants for one in trajectories):
            continue
        own: list[Row] = []
        for layer in range(len(trajectories[0].log10_constants)):
            constants = [one.log10_constants[layer] for one in trajectories]
            before = [one.values[RESIDUAL_NORM][layer] for one in trajectories]
            after = [one.values[RESIDUAL_NORM][layer + 1] for one in trajectories]
            triples = zip(constants, before, after, strict=True)
            columns = {
                "layer_constant": [power_of_ten_or_inf_beyond_floats(k) for k in constants],
                "layer_radius": [power_of_ten_or_inf_beyond_floats(-k / 2.0) for k in constants],
                "attention_residual": [power_of_ten_or_inf_beyond_floats(r) for r in before],
                "logit_range": [
                    power_of_ten_without_underflow(one.log10_logit_ranges[layer])
                    for one in trajectories
                ],
                "bound_slack": [k + 3.0 * r - s for k, r, s in triples],
            }
            own += build_layer_rows(columns, variant, layer)
        rows += own
        views.append(build_collapse_bound_view(variant))
        findings.append(Finding(variant, describe_layers_covered_by_bound(own)))
    return rows, views, findings


def build_layer_rows(
    columns: Mapping[str, Sequence[float]], variant: str, layer: int
) -> Iterator[Row]:
    for metric, values in columns.items():
        unit = THEOREM_METRICS[metric].unit
        yield summarize_values(metric, unit, values, BEYOND, variant=variant, layer=layer)
