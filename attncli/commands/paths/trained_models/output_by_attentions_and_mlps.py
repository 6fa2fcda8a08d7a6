"""A trained model's output by the number of attentions and the number of MLPs on a path."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.analysis.means_and_confidence_intervals import describe_averaging, summarize_values
from attncli.analysis.paths.decomposed_model import DecomposableModel, run_unmodified_model
from attncli.analysis.paths.path_metrics import format_percent
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.commands.paths.synthetic.metrics_by_path_length import NORM_SHARE, OUTPUT_SHARE
from attncli.errors import InsufficientPrecision, format_count
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.progress import Progress, ignore_progress
from attncli.records import Definition, Finding, Report, Row, Scalar, View
from attncli.tensor_subclasses.path_streams.path_tensor_forward import (
    decompose_by_attention_and_mlp_length,
)

STEP = "attention and MLP"
"""The variant of the rows."""

COMPLETENESS = "completeness_error"

METRICS: Mapping[str, Definition] = {
    NORM_SHARE: Definition(
        "1", "‖T‖_F / Σ ‖T‖_F of the sum T of all paths with so many attentions and so many MLPs."
    ),
    OUTPUT_SHARE: Definition("1", "⟨T, Y⟩ / ‖Y‖_F²: signed, adds up to 1 over all places."),
    COMPLETENESS: Definition("1", "‖Y - Σ T‖_F / ‖Y‖_F: rounding, or the decomposition is wrong."),
}


class StepShares(NamedTuple):
    """Shares of one text, [attentions][MLPs]."""

    norm: list[list[float]]
    output: list[list[float]]
    completeness: float


def measure_output_by_attention_mlp_counts(
    subject: DecomposableModel, texts: Sequence[ModelInput], progress: Progress = ignore_progress
) -> Report:
    """The shares of every pair of lengths, over texts."""
    shares, about = subject.apply_to_all_texts(
        texts, compute_output_by_attention_mlp_counts, "steps", (StepShares,), progress
    )
    rows = tuple(build_attention_mlp_count_rows(shares))
    finding = Finding(STEP, describe_largest_share_of_output(rows))
    over = describe_averaging(len(texts), "texts")
    return Report(
        study="paths",
        headline=finding.text,
        rows=rows,
        metrics=METRICS,
        views=(
            *(
                View(
                    f"{name} by attentions down and MLPs across{over}",
                    "attentions",
                    (name,),
                    "mlps",
                )
                for name in (NORM_SHARE, OUTPUT_SHARE)
            ),
            View("Do the terms add up to the output?", "variant", (COMPLETENESS,)),
        ),
        findings=(finding,),
        **about,
    )


def compute_output_by_attention_mlp_counts(
    subject: DecomposableModel, text: ModelInput
) -> StepShares:
    """Compute the shares on one text and check their sum against the model's own output."""
    with run_in_model_precision(subject.model_without_head):
        plain, _ = run_unmodified_model(subject.model_without_head, subject, text)
        terms = decompose_by_attention_and_mlp_length(
            subject.model_without_head, subject.stack, text.kwargs
        ).terms
    terms, plain = (move_to_float64_device(each).double() for each in (terms, plain))
    whole = torch.linalg.norm(plain)
    total = terms.flatten(0, 1).sum(dim=0)
    error = float(torch.linalg.norm(total - plain) / whole)
    if not error <= subject.completeness_tolerance:
        raise InsufficientPrecision(
            f"{text.name}: the terms add up to the output within {error:.1g} only{subject.completeness_advice}."
        )
    sizes = torch.linalg.norm(terms, dim=(2, 3))
    along = (terms * plain).sum(dim=(2, 3)) / whole.square()
    return StepShares(tensor_to_lists(sizes / sizes.sum()), tensor_to_lists(along), error)


def tensor_to_lists(grid: Tensor) -> list[list[float]]:
    found: list[list[float]] = grid.tolist()
    return found


def build_attention_mlp_count_rows(shares: Sequence[StepShares]) -> Iterator[Row]:
    for metric, grids in (
        (NORM_SHARE, [one.norm for one in shares]),
        (OUTPUT_SHARE, [one.output for one in shares]),
    ):
        for attentions in range(len(grids[0])):
            for mlps in range(len(grids[0][0])):
                keys: dict[str, Scalar] = {"attentions": attentions, "mlps": mlps}
                values = [grid[attentions][mlps] for grid in grids]
                yield summarize_values(metric, "1", values, "", keys, variant=STEP)
    errors = [one.completeness for one in shares]
    yield summarize_values(COMPLETENESS, "1", errors, "", variant=STEP)


def describe_largest_share_of_output(rows: Sequence[Row]) -> str:
    """Describe the largest share of the output, and the share without attention."""
    shares = [row for row in rows if row.metric == NORM_SHARE]
    top = max(shares, key=lambda row: row.value or 0.0)
    straight = sum(row.value or 0.0 for row in shares if row.keys["attentions"] == 0)
    way = " and ".join(
        (
            format_count(int(top.keys["attentions"]), "attention"),
            format_count(int(top.keys["mlps"]), "MLP"),
        )
    )
    return (
        f"The largest part of the output travels through {way}: "
        f"{format_percent(top.value or 0.0)} of the summed norms; through no attention at all {format_percent(straight)}."
    )
