"""The theorem on a trained model, layer by layer: its constant, and its one-layer bound against what attention does.

The bound speaks of what a layer's attention reads (after the norm before it) and writes (before the skip after it):
‖res(SA(Z))‖ ≤ (4βH/√d) ‖res(Z)‖³ in the norm √(‖·‖_1 ‖·‖_∞). So norms and skips around it do not matter; biases only move
the common rows. Both residuals are taken from the model's own pass on the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.analysis.rank_collapse.collapse_bound_rows import (
    BEYOND,
    THEOREM_METRICS,
    build_collapse_bound_view,
    describe_layers_covered_by_bound,
    log10_slack_of_collapse_bound,
    power_of_ten_or_inf_beyond_floats,
)
from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.model_structure.module_paths import find_module_by_path_suffix
from attncli.errors import AttnError, InputError, format_count
from attncli.head_weights.collapse_bound_constants import (
    LayerTheoremConstant,
    compute_collapse_bound_constant,
    compute_largest_logit_range,
    explain_missing_collapse_bound,
)
from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.head_projections import Array
from attncli.head_weights.in_memory_tensors import InMemoryTensors
from attncli.head_weights.model_families import explain_unsupported_model_type, find_model_family
from attncli.maths.matrices.matrix_norms import composite_norm
from attncli.maths.number_format import format_number
from attncli.models.inputs.model_input import ModelInput
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.precision import run_in_model_precision
from attncli.progress import Progress
from attncli.records import NOT_APPLICABLE, Finding, Report, Row, RowPlace


@dataclass(frozen=True)
class AttentionResiduals:
    """Residuals of one layer's attention on one text."""

    input: float
    output: float
    logit_range: float


def add_collapse_theorem_rows(
    report: Report, checkpoint: LoadedModel, texts: Sequence[ModelInput], progress: Progress
) -> Report:
    """Add the theorem's numbers for the model to the report; or the reason why there are none."""
    rows, finding = evaluate_rank_collapse_theorem(checkpoint, texts, progress)
    return replace(
        report,
        rows=(*report.rows, *rows),
        metrics={**report.metrics, **THEOREM_METRICS},
        views=(*report.views, build_collapse_bound_view())
        if any(row.value is not None for row in rows)
        else report.views,
        findings=(*report.findings, finding),
    )


def evaluate_rank_collapse_theorem(
    checkpoint: LoadedModel, texts: Sequence[ModelInput], progress: Progress
) -> tuple[list[Row], Finding]:
    model = checkpoint.model_without_head
    try:
        sentence = model.config.to_dict()
        config = HeadConfig(
            Path(type(model).__name__), sentence, find_model_family(type(model).__name__, sentence)
        )
        config.refuse_unsupported_weight_layouts()
        tensors = InMemoryTensors(type(model).__name__, model.state_dict())
        constants = []
        for layer in range(config.layer_count):
            progress(layer, config.layer_count, "layers' constants")
            constants.append(compute_collapse_bound_constant(tensors, config, layer))
    except AttnError as error:
        why = explain_unsupported_model_type(model.config.to_dict()) or str(error).removesuffix(".")
        return [
            Row(metric, None, THEOREM_METRICS[metric].unit, note=f"{NOT_APPLICABLE}{why}")
            for metric in THEOREM_METRICS
        ], Finding("theorem", why)
    uncovered = explain_missing_collapse_bound(config, tensors)
    residuals = (
        []
        if uncovered
        else [capture_rank_one_residuals(model, config, tensors, text) for text in texts]
    )
    rows = list(build_layer_theorem_rows(constants, residuals, uncovered))
    return rows, Finding("theorem", describe_rank_collapse_theorem(rows, config, uncovered))


def build_layer_theorem_rows(
    constants: Sequence[LayerTheoremConstant],
    residuals: Sequence[Sequence[AttentionResiduals]],
    uncovered: str,
) -> Iterator[Row]:
    """Rows of one layer; each text gives one column of residuals."""
    for layer, found in enumerate(constants):
        keys: RowPlace = {"layer": layer}
        constant = power_of_ten_or_inf_beyond_floats(found.log10_constant)
        yield summarize_values("beta", "1", [found.beta], BEYOND, **keys)
        yield summarize_values("layer_constant", "1", [constant], BEYOND, **keys)
        radius = power_of_ten_or_inf_beyond_floats(-found.log10_constant / 2.0)
        yield summarize_values("layer_radius", "norm", [radius], BEYOND, **keys)
        why = f"{NOT_APPLICABLE}{uncovered}" if uncovered else BEYOND
        own = [one[layer] for one in residuals]
        read = [each.input for each in own]
        yield summarize_values("attention_residual", "norm", read, why, **keys)
        ranges = [each.logit_range for each in own]
        yield summarize_values("logit_range", "1", ranges, why, **keys)
        slacks = [
            log10_slack_of_collapse_bound(found.log10_constant, each.input, each.output)
            for each in own
        ]
        yield summarize_values("bound_slack", "log10", slacks, why, **keys)


def capture_rank_one_residuals(
    model: nn.Module, config: HeadConfig, tensors: InMemoryTensors, text: ModelInput
) -> list[AttentionResiduals]:
    """Residuals of the input and output of every attention layer, in execution order."""
    read, written = [], []
    places = list(dict.fromkeys(map(config.layer_index_in_tensor_names, range(config.layer_count))))

    def find_module_of_each_layer(template: str) -> list[nn.Module]:
        return [find_module_by_path_suffix(model, template.format(l=place)) for place in places]

    def record_attention_input(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        read.append(first_text_to_float64_array(args[0]))

    def record_attention_output(_: nn.Module, __: object, output: Tensor) -> None:
        written.append(first_text_to_float64_array(output))

    reading = [
        (module, record_attention_input)
        for module in find_module_of_each_layer(config.family.query)
    ]
    writing = [
        (module, record_attention_output)
        for module in find_module_of_each_layer(config.family.output)
    ]
    with hook_forwards(reading, writing), torch.no_grad(), run_in_model_precision(model):
        model(**text.kwargs)
    if len(read) != config.layer_count or len(written) != config.layer_count:
        raise InputError(
            f"{text.name}: {format_count(len(read), 'attention')} read and {len(written)} wrote, where the config says {config.layer_count}."
        )
    return [
        AttentionResiduals(
            composite_norm(subtract_mean_over_tokens(a)),
            composite_norm(subtract_mean_over_tokens(b)),
            compute_largest_logit_range(tensors, config, layer, subtract_mean_over_tokens(a)),
        )
        for layer, (a, b) in enumerate(zip(read, written, strict=True))
    ]


def first_text_to_float64_array(tensor: Tensor) -> Array:
    found: Array = tensor.detach()[0].cpu().double().numpy()
    return found


def subtract_mean_over_tokens(states: Array) -> Array:
    found: Array = states - states.mean(axis=0)
    return found


def describe_rank_collapse_theorem(rows: Sequence[Row], config: HeadConfig, uncovered: str) -> str:
    """Describe the constant and the one-layer bound, or why there is none."""
    if uncovered:
        return uncovered
    constants = [row.value for row in rows if row.metric == "layer_constant"]
    known = [value for value in constants if value is not None]
    inside = sum(
        map(
            is_within_theorem_radius,
            list_report_values_of_metric(rows, "attention_residual"),
            list_report_values_of_metric(rows, "layer_radius"),
        )
    )
    sentence = f"tokens lie within the bound's radius in {inside} of {format_count(config.layer_count, 'layer')}"
    if known:
        sentence += f" (4βH/√d from {format_number(min(known))} to {format_number(max(known))})"
    return f"{sentence}; {describe_layers_covered_by_bound(rows)}"


def list_report_values_of_metric(rows: Sequence[Row], metric: str) -> list[float | None]:
    return [row.value for row in rows if row.metric == metric]


def is_within_theorem_radius(residual: float | None, radius: float | None) -> bool:
    return residual is not None and radius is not None and residual < radius
