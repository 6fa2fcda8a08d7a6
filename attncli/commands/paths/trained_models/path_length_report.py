"""`attn paths` on trained models: the last block's output by path length, and the loss of short
paths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.analysis.means_and_confidence_intervals import describe_averaging, summarize_values
from attncli.analysis.paths.decomposed_model import DecomposableModel, run_unmodified_model
from attncli.analysis.paths.path_count_rows import build_path_count_rows
from attncli.analysis.paths.path_metrics import format_headline, metric_definitions
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.commands.paths.synthetic.metrics_by_path_length import (
    PathTermMeasurements,
    measure_terms_by_path_length,
)
from attncli.commands.paths.synthetic.output_by_path_length import PathLengthDecomposition
from attncli.commands.paths.synthetic.path_length_report import (
    COLUMNS,
    build_completeness_and_cancellation_rows,
    build_path_length_finding,
    build_path_length_rows,
    build_variant_comparison_tables,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.network_path_counts import count_paths_with_varying_heads
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.progress import Progress, ignore_progress
from attncli.records import Definition, Report, Row, View
from attncli.tensor_subclasses.path_streams.path_tensor_forward import (
    PathDecomposition,
    decompose_by_path_length,
)

NAMES = {"attention": "attention", "mlp": "MLP"}

LOSSES: Mapping[str, Definition] = {
    "loss": Definition(
        "nats",
        "Mean loss of the next token when only paths up to this length are kept; the final norm and the head run on what is left.",
    ),
    "full_loss": Definition("nats", "Mean loss of the next token of the whole model."),
}


@dataclass(frozen=True)
class PathPlan:
    """What to compute on every text."""

    steps: tuple[str, ...]
    metrics: Sequence[str]
    loss: bool


class DecomposedText(NamedTuple):
    """Results of one text, by the kind of step."""

    measurements: dict[str, PathTermMeasurements]
    counts: dict[str, dict[int, int]]
    losses: dict[str, list[float]]
    """Per kind of step, the loss of the stream truncated at each length."""
    full_loss: float | None


def measure_model_paths(
    subject: DecomposableModel,
    texts: Sequence[ModelInput],
    plan: PathPlan,
    progress: Progress = ignore_progress,
) -> Report:
    """One stack of a model, over texts."""
    made_of = (DecomposedText, PathTermMeasurements)
    found, about = subject.apply_to_all_texts(
        texts, partial(decompose_output_on_text, plan=plan), "paths", made_of, progress
    )
    rows = [row for step in plan.steps for row in build_model_path_rows(found, step)]
    findings = tuple(
        build_path_length_finding(
            step, [one.measurements[step] for one in found], found[0].counts[step]
        )
        for step in plan.steps
    )
    return Report(
        study="paths",
        headline=format_headline(findings),
        rows=(*rows, *build_full_model_loss_rows(found)),
        metrics={**metric_definitions(plan.metrics), **LOSSES},
        views=tuple(build_model_path_length_tables(plan, len(texts))),
        findings=findings,
        **about,
    )


def decompose_output_on_text(
    subject: DecomposableModel, text: ModelInput, plan: PathPlan
) -> DecomposedText:
    """The plain forward pass, and one by length for each kind of step."""
    model = subject.checkpoint.model if plan.loss else subject.model_without_head
    found = DecomposedText({}, {}, {}, None)
    with run_in_model_precision(subject.model_without_head):
        state, output = run_unmodified_model(model, subject, text)
        for step in plan.steps:
            parts, after = decompose_by_path_length(
                model,
                subject.stack,
                text.kwargs,
                step == "attention",
                sum_residual_streams_up_to_length if plan.loss else None,
            )
            where = f"{text.name}, {step} steps"
            terms = split_path_terms_into_row_and_residual(parts, state)
            found.measurements[step] = measure_terms_by_path_length(
                terms,
                plan.metrics,
                where,
                subject.completeness_tolerance,
                subject.completeness_advice,
            )
            found.counts[step] = count_paths_with_varying_heads(
                parts.heads if step == "attention" else [1] * len(subject.stack.calls)
            )
            if plan.loss:
                found.losses[step] = next_token_losses(after.logits, text)
    return found._replace(
        full_loss=next_token_losses(output.logits, text)[0] if plan.loss else None
    )


def split_path_terms_into_row_and_residual(
    parts: PathDecomposition, output: Tensor
) -> PathLengthDecomposition:
    """As the states that are measured."""
    return PathLengthDecomposition(
        split_into_common_row_and_residual(output),
        {
            length: split_into_common_row_and_residual(term)
            for length, term in enumerate(parts.terms)
        },
    )


def split_into_common_row_and_residual(state: Tensor) -> SplitState:
    return SplitState.from_states(state.to("cpu", torch.float64).numpy())


def sum_residual_streams_up_to_length(terms: Tensor) -> Tensor:
    """The streams truncated at each length, as a batch for the rest of the model."""
    return terms.cumsum(dim=0)


def next_token_losses(logits: Tensor, text: ModelInput) -> list[float]:
    """The mean loss of the next token, in nats, of every text of the batch."""
    next_tokens, logits = map(move_to_float64_device, (text.kwargs["input_ids"][0, 1:], logits))
    return [float(F.cross_entropy(one[:-1].double(), next_tokens)) for one in logits]


def build_model_path_rows(texts: Sequence[DecomposedText], step: str) -> Iterator[Row]:
    """Counts, terms, completeness and losses of one kind of step."""
    of_step = [one.measurements[step] for one in texts]
    yield from build_path_count_rows(texts[0].counts[step], step)
    yield from build_path_length_rows(of_step, step)
    yield from build_completeness_and_cancellation_rows(of_step, step)
    for length, losses in enumerate(zip(*(one.losses.get(step, ()) for one in texts), strict=True)):
        yield summarize_values(
            "loss", "nats", losses, "not finite", {"length": length}, variant=step
        )


def build_full_model_loss_rows(texts: Sequence[DecomposedText]) -> Iterator[Row]:
    losses = [one.full_loss for one in texts if one.full_loss is not None]
    if losses:
        yield summarize_values("full_loss", "nats", losses, "not finite")


def build_model_path_length_tables(plan: PathPlan, texts: int) -> Iterator[View]:
    over = describe_averaging(texts, "texts")
    columns = (*COLUMNS, *(("loss",) if plan.loss else ()), *plan.metrics)
    for step in plan.steps:
        title = f"Terms by path length, a step is an {NAMES[step]}{over}"
        yield View(title, "length", columns, where={"variant": step})
    yield from build_variant_comparison_tables()
