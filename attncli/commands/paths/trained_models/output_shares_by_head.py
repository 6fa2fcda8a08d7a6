"""How much of a trained model's output passes through each head, and past each layer's attention."""

from collections.abc import Mapping, Sequence

from attncli.analysis.means_and_confidence_intervals import describe_averaging, summarize_values
from attncli.analysis.paths.decomposed_model import DecomposableModel, run_unmodified_model
from attncli.commands.paths.synthetic.output_shares_by_head import (
    OUTPUT,
    HeadOrSkip,
    build_output_share_metric_rows,
    build_output_share_tables,
    build_output_shares_report,
    describe_head_with_largest_share,
)
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.progress import Progress, ignore_progress
from attncli.records import Definition, Finding, Report
from attncli.tensor_subclasses.path_streams.head_contributions import compute_contributions_by_head

STEP = "attention"
"""The variant of the rows."""

LOST = "not finite"

PAST = "past"
"""Paths that do not go through a layer's attention: its skip, and biases added after it."""

OWN_METRICS: Mapping[str, Definition] = {
    OUTPUT: Definition(
        "1",
        "⟨C, Y⟩ / ‖Y‖_F², C the sum of all paths through this head, or past the layer's attention; adds up to 1 in a layer.",
    ),
    "completeness_error": Definition(
        "1", "‖Y - Y'‖_F / ‖Y‖_F, Y' the output of the frozen network that the paths are those of."
    ),
}


def measure_model_output_shares_by_head(
    subject: DecomposableModel, texts: Sequence[ModelInput], progress: Progress = ignore_progress
) -> Report:
    """The share of every head of a stack, over texts."""
    read, about = subject.apply_to_all_texts(
        texts, compute_model_output_shares_by_head, "heads", (HeadOrSkip,), progress
    )
    found, errors = [shares for shares, _ in read], [error for _, error in read]
    rows = (
        *build_output_share_metric_rows(OUTPUT, found, STEP, LOST),
        summarize_values("completeness_error", "1", errors, LOST, variant=STEP),
    )
    over = describe_averaging(len(texts), "texts")
    views = build_output_share_tables(
        {OUTPUT: f"{OUTPUT}{over}"}, "Is the frozen network the model?"
    )
    finding = Finding("heads", describe_head_with_largest_share(rows, PAST))
    return build_output_shares_report(rows, OWN_METRICS, views, finding, about)


def compute_model_output_shares_by_head(
    subject: DecomposableModel, text: ModelInput
) -> tuple[dict[HeadOrSkip, float], float]:
    """Compute the share of every passage point, and the frozen network's error against the model."""
    with run_in_model_precision(subject.model_without_head):
        state, _ = run_unmodified_model(subject.model_without_head, subject, text)
        output, by_layer = compute_contributions_by_head(
            subject.model_without_head, subject.stack, text.kwargs
        )
    error = subject.measure_completeness_error(output, state, text)
    layers = [call.layer for call in subject.stack.calls if call.attention]
    shares: dict[HeadOrSkip, float] = {}
    for layer, heads in zip(layers, by_layer, strict=True):
        for head, share in enumerate(heads.tolist()):
            shares[HeadOrSkip(layer, f"head {head}", head)] = share
        shares[HeadOrSkip(layer, PAST)] = 1.0 - float(heads.cpu().double().sum())
    return shares, error
