"""From the options of `attn dispersion` to its report."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from attncli.analysis import Study
from attncli.analysis.heads.metric_selection import MetricSelection, choose_metrics
from attncli.analysis.heads.model_inspection import HeadPlan
from attncli.analysis.heads.prepare_softmax_attention_heads import (
    list_available_heads,
    prepare_softmax_heads,
    refuse_nonexistent_heads,
)
from attncli.capture import STRIP_MEMORY
from attncli.commands.dispersion.report import (
    DEFAULT,
    build_metric_and_slope_definitions,
    measure_dispersion,
)
from attncli.declare.dry_run import stop_dry_run_before_model_load
from attncli.errors import UsageError, format_count
from attncli.gates import Condition, refuse_gates_on_unmeasured_metrics
from attncli.model_and_file_sources import Source
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.model_input import ModelInput
from attncli.models.inputs.requested_inputs import make_model_inputs
from attncli.models.inputs.vocabulary_and_positions import find_max_positions
from attncli.models.loading.load_model import load_model
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.loading.memory_estimate import require_memory_to_run
from attncli.options.head_selection import HeadChoice
from attncli.options.model_and_input import ModelOptions, TextsByLengthOptions
from attncli.options.sweep_ranges import parse_size_range

FEWEST = 2
"""Smallest number of lengths that define a slope."""


def prepare_dispersion_measurement(
    source: Source,
    lengths: str,
    names: Sequence[str],
    heads: HeadChoice,
    conditions: Sequence[Condition],
    model: ModelOptions,
    inputs: TextsByLengthOptions,
    seed: int,
) -> Study:
    """Load and verify the model before the first length is measured."""
    points = parse_text_lengths(lengths)
    metrics = choose_head_metrics(names)
    refuse_gates_on_unmeasured_metrics(conditions, build_metric_and_slope_definitions(metrics))
    options, requested = (
        model.build_model_load_options(seed),
        inputs.build_requested_input(None, seed),
    )
    stop_dry_run_before_model_load()
    checkpoint = load_model(source, options)
    most = find_max_positions(checkpoint.model)
    if most is not None and points[-1] > most:
        raise UsageError(
            f"`lengths={lengths!r}` goes to {points[-1]} tokens, {type(checkpoint.model).__name__} has positions for {most}: end it there."
        )
    texts = {length: cut_texts_to_length(checkpoint, requested, length) for length in points}
    plan = HeadPlan(metrics, heads.choose_layers_to_measure(), heads.make_head_filter(), seed=seed)
    subject = prepare_softmax_heads(checkpoint.model_without_head)
    refuse_nonexistent_heads(list_available_heads(subject), plan)
    shorter = "let `lengths` end at a shorter one"
    require_memory_to_run(subject.body, points[-1], STRIP_MEMORY, advice=shorter)
    return partial(measure_dispersion, checkpoint, subject, texts, plan)


def parse_text_lengths(text: str) -> list[int]:
    """At least two lengths, the shortest first."""
    found = sorted({int(n) for n in parse_size_range(f"`lengths={text!r}`", "tokens", text, int)})
    if len(found) < FEWEST or found[0] < FEWEST:
        raise UsageError(f"`lengths={text!r}`: it needs at least two lengths, from 2 tokens on.")
    return found


def choose_head_metrics(names: Sequence[str]) -> MetricSelection:
    """Metrics of heads that any text shows."""
    metrics = replace(choose_metrics(names or DEFAULT), states=(), roles=False)
    if not metrics.heads or metrics.repeated_token_metrics:
        wrong = metrics.repeated_token_metrics[0] if metrics.repeated_token_metrics else names[0]
        raise UsageError(
            f"`metric={wrong!r}` is no number of a head on a text of any length: leave it out.",
            about=["metric"],
        )
    return metrics


def cut_texts_to_length(
    checkpoint: LoadedModel, requested: RequestedInput, length: int
) -> list[ModelInput]:
    """Cut the texts to a length, refusing shorter ones; random tokens where no text is provided."""
    has_texts = requested.texts or requested.text_file is not None or requested.token_ids
    cut = replace(requested, tokens=length, random_tokens=None if has_texts else length)
    texts = make_model_inputs(checkpoint, cut)
    for text in texts:
        if text.tokens != length:
            raise UsageError(
                f"{text.name} has {format_count(text.tokens, 'token')}, fewer than the {length} of `lengths`: end it there, or give no text "
                "for random tokens.",
                about=["lengths", "text", "text_file", "token_ids"],
            )
    return texts
