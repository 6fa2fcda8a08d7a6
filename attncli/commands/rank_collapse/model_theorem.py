"""The theorem on a trained model, layer by layer: its constant, and its one-layer bound against what attention does.

The bound speaks of what a layer's attention reads (after the norm before it) and writes (before the skip after it):
‖res(SA(Z))‖ ≤ (4βH/√d) ‖res(Z)‖³ in the norm √(‖·‖_1 ‖·‖_∞). So norms and skips around it do not matter; biases only move
the common rows. Both residuals are taken from the model's own pass on the text.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attncli.analysis import Progress
from attncli.analysis.states.theorem_rows import (
    BEYOND,
    THEOREM_METRICS,
    by_layer,
    holds_in_words,
    slack,
    ten_to,
)
from attncli.analysis.statistics import summary_row
from attncli.capture.stacks.module_paths import module_called
from attncli.errors import AttnError, InputError, counted
from attncli.head_weights.configs import Config
from attncli.head_weights.families import family_of, why_no_family
from attncli.head_weights.head_projections import Array
from attncli.head_weights.in_memory_tensors import HeldTensors
from attncli.head_weights.theorem_constants import (
    LayerConstant,
    layer_constant,
    logit_range,
    why_not_covered,
)
from attncli.maths.digits import number
from attncli.maths.matrices.norms import composite_norm
from attncli.models.inputs.texts import ModelInput
from attncli.models.loading.load import Checkpoint
from attncli.models.loading.precision import own_precision
from attncli.records import NOT_APPLICABLE, Finding, Report, Row


@dataclass(frozen=True)
class Residuals:
    """Of one layer's attention on one text."""

    read: float
    written: float
    logit_range: float


def with_theorem(
    report: Report, checkpoint: Checkpoint, texts: Sequence[ModelInput], progress: Progress
) -> Report:
    """The report with the theorem's side of the model; where it has none, with the reason."""
    rows, finding = theorem_of(checkpoint, texts, progress)
    return replace(
        report,
        rows=(*report.rows, *rows),
        metrics={**report.metrics, **THEOREM_METRICS},
        views=(*report.views, by_layer())
        if any(row.value is not None for row in rows)
        else report.views,
        findings=(*report.findings, finding),
    )


def theorem_of(
    checkpoint: Checkpoint, texts: Sequence[ModelInput], progress: Progress
) -> tuple[list[Row], Finding]:
    model = checkpoint.body
    try:
        said = model.config.to_dict()
        config = Config(Path(type(model).__name__), said, family_of(type(model).__name__, said))
        config.refuse_other_layouts()
        tensors = HeldTensors(type(model).__name__, model.state_dict())
        constants = []
        for layer in range(config.layers):
            progress(layer, config.layers, "layers' constants")
            constants.append(layer_constant(tensors, config, layer))
    except AttnError as error:
        why = why_no_family(model.config.to_dict()) or str(error).removesuffix(".")
        return [nothing(metric, why) for metric in THEOREM_METRICS], Finding("theorem", why)
    uncovered = why_not_covered(config, tensors)
    residuals = [] if uncovered else [residuals_of(model, config, tensors, text) for text in texts]
    rows = list(layer_rows(constants, residuals, uncovered))
    return rows, Finding("theorem", in_words(rows, config, uncovered))


def nothing(metric: str, why: str) -> Row:
    return Row(metric, None, THEOREM_METRICS[metric].unit, note=f"{NOT_APPLICABLE}{why}")


def layer_rows(
    constants: Sequence[LayerConstant], residuals: Sequence[Sequence[Residuals]], uncovered: str
) -> Iterator[Row]:
    """One text, one column of residuals."""
    for layer, found in enumerate(constants):
        beside: dict[str, Any] = {"layer": layer}
        constant = ten_to(found.log10_constant)
        yield summary_row("beta", "1", [found.beta], BEYOND, **beside)
        yield summary_row("layer_constant", "1", [constant], BEYOND, **beside)
        radius = ten_to(-found.log10_constant / 2.0)
        yield summary_row("layer_radius", "norm", [radius], BEYOND, **beside)
        why = f"{NOT_APPLICABLE}{uncovered}" if uncovered else BEYOND
        own = [one[layer] for one in residuals]
        read = [each.read for each in own]
        yield summary_row("attention_residual", "norm", read, why, **beside)
        ranges = [each.logit_range for each in own]
        yield summary_row("logit_range", "1", ranges, why, **beside)
        slacks = [slack(found.log10_constant, each.read, each.written) for each in own]
        yield summary_row("bound_slack", "log10", slacks, why, **beside)


def residuals_of(
    model: nn.Module, config: Config, tensors: HeldTensors, text: ModelInput
) -> list[Residuals]:
    """What every layer's attention is given and gives, in the order in which the layers run."""
    read, written = [], []
    with ExitStack() as hooks, torch.no_grad(), own_precision(model):
        for place in dict.fromkeys(map(config.place, range(config.layers))):
            query = module_called(model, config.family.query.format(l=place))
            output = module_called(model, config.family.output.format(l=place))
            taking = query.register_forward_pre_hook(lambda _, args: read.append(state(args[0])))
            giving = output.register_forward_hook(lambda _, __, out: written.append(state(out)))
            hooks.callback(taking.remove)
            hooks.callback(giving.remove)
        model(**text.kwargs)
    if len(read) != config.layers or len(written) != config.layers:
        raise InputError(
            f"{text.name}: {counted(len(read), 'attention')} read and {len(written)} wrote, where the config says {config.layers}."
        )
    return [
        Residuals(
            composite_norm(centred(a)),
            composite_norm(centred(b)),
            logit_range(tensors, config, layer, centred(a)),
        )
        for layer, (a, b) in enumerate(zip(read, written, strict=True))
    ]


def state(tensor: Tensor) -> Array:
    found: Array = tensor.detach()[0].double().cpu().numpy()
    return found


def centred(states: Array) -> Array:
    found: Array = states - states.mean(axis=0)
    return found


def in_words(rows: Sequence[Row], config: Config, uncovered: str) -> str:
    """The constant, then the one-layer bound, or why there is none."""
    if uncovered:
        return uncovered
    constants = [row.value for row in rows if row.metric == "layer_constant"]
    known = [value for value in constants if value is not None]
    inside = sum(
        map(within, values_of(rows, "attention_residual"), values_of(rows, "layer_radius"))
    )
    said = f"tokens lie within the bound's radius in {inside} of {counted(config.layers, 'layer')}"
    if known:
        said += f" (4βH/√d from {number(min(known))} to {number(max(known))})"
    return f"{said}; {holds_in_words(rows)}"


def values_of(rows: Sequence[Row], metric: str) -> list[float | None]:
    return [row.value for row in rows if row.metric == metric]


def within(residual: float | None, radius: float | None) -> bool:
    return residual is not None and radius is not None and residual < radius
