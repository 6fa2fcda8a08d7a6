"""Single paths of a trained model: how large each one's part of the output is, and how close to rank 1 its product."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attncli.analysis.distributed_text_loop import apply_to_each_text
from attncli.analysis.paths.decomposed_model import DecomposableModel, run_unmodified_model
from attncli.analysis.paths.path_selection import Path, sample_residual_path
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.commands.paths.synthetic.single_paths import (
    NORM,
    OWN_METRICS,
    RESIDUAL,
    PathMeasurements,
    build_path_quantile_rows,
    build_report_rows_of_path,
    build_sampled_paths_report,
    build_single_paths_report,
)
from attncli.commands.paths.trained_models.attention_map_products import AttentionMapsOfStack
from attncli.errors import InputError, InsufficientPrecision
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.processes.divide_work_over_ranks import list_item_indices_of_rank
from attncli.progress import Progress, ignore_progress, make_progress_counter
from attncli.records import Definition, Report
from attncli.tensor_subclasses.path_streams.path_tensor_forward import run_single_paths

STEP = "attention"
"""The variant of the rows: paths of attention only, whatever MLPs lie between."""

TOGETHER = 16
"""Paths that go through the model in one pass."""

STREAMS = 1 + TOGETHER
"""Streams in memory during the pass."""

METRICS: Mapping[str, Definition] = {
    RESIDUAL: OWN_METRICS[RESIDUAL],
    NORM: Definition(
        "log10",
        "log10 ‖T‖_F / ‖Y‖_F, T what the path makes of the first block's input, with the norms and MLPs on its way frozen.",
    ),
}

Followed = tuple[list[PathMeasurements], str]
"""The paths' numbers, and why they have no norms; empty where they have."""


def measure_sampled_model_paths(
    subject: DecomposableModel,
    texts: Sequence[ModelInput],
    heads: Sequence[int],
    samples: int,
    seed: int,
    progress: Progress = ignore_progress,
) -> Report:
    """Random paths of every length, over all texts; `heads`: of each attention."""

    def sample_paths_of_text(place: int) -> list[Path]:
        """Whoever reads the text draws the same."""
        stream = np.random.default_rng([seed, place])
        lengths = range(1, len(heads) + 1)
        return [
            sample_residual_path(stream, heads, length)
            for length in lengths
            for _ in range(samples)
        ]

    read, about = measure_paths_on_texts(subject, texts, sample_paths_of_text, "sampled", progress)
    rows = tuple(
        row
        for length in range(len(heads))
        for singles in [
            [one for found in read for one in found[length * samples : (length + 1) * samples]]
        ]
        for row in build_path_quantile_rows(length + 1, singles, STEP)
    )
    return build_sampled_paths_report(
        rows, METRICS, STEP, samples * len(texts), {**about, "seeds": (seed,)}
    )


def measure_requested_model_paths(
    subject: DecomposableModel,
    texts: Sequence[ModelInput],
    paths: Sequence[Path],
    progress: Progress = ignore_progress,
) -> Report:
    """Measure the named paths on all texts."""
    read, about = measure_paths_on_texts(subject, texts, lambda place: paths, "named", progress)
    rows = tuple(
        row
        for path, singles in zip(paths, zip(*read, strict=True), strict=True)
        for row in build_report_rows_of_path(path, singles, STEP)
    )
    return build_single_paths_report(rows, METRICS, "Single paths", about)


def measure_paths_on_texts(
    subject: DecomposableModel,
    texts: Sequence[ModelInput],
    paths_of: Callable[[int], Sequence[Path]],
    what: str,
    progress: Progress,
) -> tuple[list[list[PathMeasurements]], dict[str, Any]]:
    """Follow the paths of every text, by its index; also return the report's description of the
    model."""
    numbers = 2 * sum(len(paths_of(place)) for place in list_item_indices_of_rank(texts))
    count_numbers = make_progress_counter(progress, numbers, "numbers of paths")

    def run_text_and_measure_paths(place: int, text: ModelInput) -> tuple[Followed, bool]:
        return subject.apply_in_sufficient_precision(
            text,
            lambda model, model_input: measure_paths_on_text(
                model, model_input, paths_of(place), count_numbers
            ),
        )

    read = apply_to_each_text(
        subject.model_without_head,
        texts,
        run_text_and_measure_paths,
        subject.checkpoint.identity,
        what,
        (PathMeasurements,),
    )
    about = subject.describe_decomposition(texts, [again for _, again in read])
    without = {why for (_, why), _ in read if why}
    about["warnings"] += tuple(f"no norms of paths: {why}" for why in sorted(without))
    return [singles for (singles, _), _ in read], about


def measure_paths_on_text(
    subject: DecomposableModel,
    text: ModelInput,
    paths: Sequence[Path],
    advance: Callable[[int], None],
) -> Followed:
    """The products by themselves; the norms where the architecture can be decomposed."""
    maps = AttentionMapsOfStack(subject, text)
    residuals = []
    for path in paths:
        residuals.append(maps.log10_rank_one_residual_of_path(path))
        advance(1)
    try:
        norms = log10_relative_norms_of_paths(subject, text, maps.heads_per_layer, paths, advance)
    except InsufficientPrecision:
        raise
    except InputError as refused:
        return [PathMeasurements(residual, None) for residual in residuals], str(refused)
    return list(map(PathMeasurements, residuals, norms)), ""


def log10_relative_norms_of_paths(
    subject: DecomposableModel,
    text: ModelInput,
    heads: Sequence[int],
    paths: Sequence[Path],
    advance: Callable[[int], None],
) -> list[float]:
    """log10 of the norms of several paths, relative to the whole output, from one pass."""
    norms: list[float] = []
    with run_in_model_precision(subject.model_without_head):
        whole, _ = run_unmodified_model(subject.model_without_head, subject, text)
        for start in range(0, len(paths), TOGETHER):
            some = paths[start : start + TOGETHER]
            output, terms, seen = run_single_paths(
                subject.model_without_head, subject.stack, text.kwargs, some
            )
            if list(seen) != list(heads):
                raise InputError("the attentions of its paths are not those of its maps.")
            subject.measure_completeness_error(output, whole, text)
            norms += [log10_frobenius_norm_ratio(term, whole) for term in terms]
            advance(len(some))
    return norms


def log10_frobenius_norm_ratio(term: torch.Tensor, whole: torch.Tensor) -> float:
    own, every = (
        torch.linalg.norm(move_to_float64_device(each).double()) for each in (term, whole)
    )
    size = float(own / every)
    return math.log10(size) if size > 0.0 else -math.inf
