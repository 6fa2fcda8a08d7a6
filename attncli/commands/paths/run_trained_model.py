"""From SOURCE and the model options to a study of a trained model's paths."""

from collections.abc import Iterable, Sequence
from functools import partial

import torch

from attncli.analysis import Study
from attncli.analysis.load_and_verify_model import HEADS
from attncli.analysis.paths.decomposed_model import DecomposableModel
from attncli.analysis.paths.path_model_preparation import (
    prepare_model_for_paths,
    require_next_token_model,
)
from attncli.analysis.paths.path_selection import parse_residual_path
from attncli.commands.paths.options import STEPS as STEPS_TOGETHER
from attncli.commands.paths.options import PathOptions
from attncli.commands.paths.trained_models.attention_map_products import AttentionMapsOfStack
from attncli.commands.paths.trained_models.output_by_attentions_and_mlps import (
    METRICS as STEPS_METRICS,
)
from attncli.commands.paths.trained_models.output_by_attentions_and_mlps import (
    measure_output_by_attention_mlp_counts,
)
from attncli.commands.paths.trained_models.output_shares_by_head import OWN_METRICS as HEADS_METRICS
from attncli.commands.paths.trained_models.output_shares_by_head import (
    measure_model_output_shares_by_head,
)
from attncli.commands.paths.trained_models.path_length_report import PathPlan, measure_model_paths
from attncli.commands.paths.trained_models.single_paths import METRICS as SINGLE_METRICS
from attncli.commands.paths.trained_models.single_paths import (
    STREAMS,
    measure_requested_model_paths,
    measure_sampled_model_paths,
)
from attncli.model_and_file_sources import Source
from attncli.models.inputs.model_input import ModelInput
from attncli.models.layer_sizes_from_config import select_text_config
from attncli.models.loading.memory_estimate import estimate_run_memory
from attncli.options.model_and_input import InputOptions, WholeModelOptions
from attncli.resource_limits import require_memory


def prepare_model_paths(
    source: Source,
    options: PathOptions,
    metrics: Sequence[str],
    model: WholeModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Study:
    """Load and verify everything before the first text is read."""
    kinds = options.parse_path_step_kinds()
    subject, texts = prepare_model_for_paths(source, model, inputs, tokens, seed, options.stack)
    if options.loss:
        require_next_token_model(subject.checkpoint, texts)
    require_memory_for_path_terms(subject, texts, 1 + len(subject.stack.calls), options.loss)
    return partial(measure_model_paths, subject, texts, PathPlan(kinds, metrics, options.loss))


def prepare_model_single_paths(
    source: Source,
    options: PathOptions,
    model: WholeModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Study:
    """Single paths; how many heads each layer has is seen on a short input."""
    subject, texts = prepare_model_for_paths(
        source, model, inputs, tokens, seed, options.stack, needs=HEADS
    )
    body = subject.checkpoint.model_without_head
    heads = AttentionMapsOfStack(subject, subject.short_input).heads_per_layer
    longest = max(text.tokens for text in texts)
    needed = STREAMS * estimate_run_memory(body, longest, 0) + estimate_run_memory(
        body, longest, 0, max(heads)
    )
    require_memory(
        needed + 8 * sum(heads) * longest**2,
        f"the attention maps of a text of {longest} tokens",
        "cut it with `tokens`",
    )
    if options.sample is not None:
        return partial(measure_sampled_model_paths, subject, texts, heads, options.sample, seed)
    named = [parse_residual_path(text, heads, skip=True) for text in options.path or ()]
    return partial(measure_requested_model_paths, subject, texts, list(dict.fromkeys(named)))


def prepare_output_by_head_or_sublayer(
    source: Source,
    options: PathOptions,
    model: WholeModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Study:
    """Decompose the output by the heads it passes, or by attentions and MLPs: a stream for every
    pair of counts."""
    subject, texts = prepare_model_for_paths(source, model, inputs, tokens, seed, options.stack)
    blocks, together = len(subject.stack.calls), options.by == STEPS_TOGETHER
    require_memory_for_path_terms(subject, texts, streams=(1 + blocks) ** 2 if together else blocks)
    return partial(
        measure_output_by_attention_mlp_counts if together else measure_model_output_shares_by_head,
        subject,
        texts,
    )


def list_path_metrics(options: PathOptions) -> Iterable[str]:
    """The metrics of single paths, or of the decomposed output."""
    if options.by is None:
        return SINGLE_METRICS
    return STEPS_METRICS if options.by == STEPS_TOGETHER else HEADS_METRICS


def require_memory_for_path_terms(
    subject: DecomposableModel, texts: Sequence[ModelInput], streams: int, loss: bool = False
) -> None:
    """Check the memory for this many streams plus the full one; with the loss, each has its own
    logits too."""
    checkpoint = subject.checkpoint
    longest = max(text.tokens for text in texts)
    streams += 1
    needed = streams * estimate_run_memory(
        checkpoint.model_without_head, longest, strip_memory=0, heads_at_once=1
    )
    if loss:
        size = torch.finfo(checkpoint.model.dtype).bits // 8
        needed += (
            2 * streams * longest * size * select_text_config(checkpoint.model.config).vocab_size
        )
    require_memory(needed, f"a text of {longest} tokens", "cut it with `tokens`")
