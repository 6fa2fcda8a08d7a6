"""From the options of `attn attribute` to its report."""

from dataclasses import replace
from functools import partial

import torch

from attncli.analysis import Study
from attncli.analysis.load_and_verify_model import HEADS, Requirement
from attncli.analysis.paths.decomposed_model import DecomposableModel
from attncli.analysis.paths.path_model_preparation import prepare_model_for_paths
from attncli.capture import AttentionSite
from attncli.capture.other_mixers.uncapturable_attention import refuse_uncapturable_attention
from attncli.commands.attribute.attribution import measure_attribution
from attncli.commands.attribute.relevance import RelevanceRequest
from attncli.commands.attribute.relevance_targets import STATE, select_score_to_explain
from attncli.commands.attribute.report import METRICS, RELEVANCES
from attncli.errors import InputError, format_count
from attncli.gates import refuse_gates_on_unmeasured_metrics
from attncli.maths.number_format import format_short_number
from attncli.model_and_file_sources import Source
from attncli.models.loading.memory_estimate import estimate_run_memory, find_max_head_count
from attncli.models.precision import run_in_model_precision
from attncli.options.model_and_input import InputOptions, WholeModelOptions
from attncli.progress import Say
from attncli.python.questions import RunContext
from attncli.resource_limits import require_memory

MAPS_KEPT = 5
"""Maps that autograd keeps per layer: scores, masked scores, softmax, weights on values, and the
gradient."""
STREAMS = 3
"""States in memory: the full one, the part from tokens, the part from constants."""


def prepare_attribution_measurement(
    source: Source,
    token: str,
    relevance: str | None,
    top: int | None,
    how: RunContext,
    model: WholeModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Study:
    """Load and verify the model and check its memory before the first text is run."""
    measured = METRICS if relevance is None else {**METRICS, **RELEVANCES}
    refuse_gates_on_unmeasured_metrics(how.conditions, measured)
    needs = Requirement.BLOCKS if relevance is None else HEADS | Requirement.MIXERS
    subject, texts = prepare_model_for_paths(source, model, inputs, tokens, seed, needs=needs)
    body = subject.checkpoint.model_without_head
    longest = max(text.tokens for text in texts)
    heads = find_max_head_count(body)
    needed = STREAMS * estimate_run_memory(body, longest, 0) + estimate_run_memory(
        body, longest, 0, heads
    )
    require_memory(needed, f"a text of {longest} tokens", "cut it with `tokens`")
    if relevance is None:
        return partial(measure_attribution, subject, texts, token, top)
    if body.config.is_encoder_decoder:
        subject = select_decoder_layer_stack(subject)
    relevance_request = RelevanceRequest(relevance, require_softmax_attention_only(subject))
    require_score_to_explain(relevance_request, subject)
    report_gradient_memory_estimate(relevance_request, subject, longest, heads, how.say)
    return partial(measure_attribution, subject, texts, token, top, request=relevance_request)


def select_decoder_layer_stack(subject: DecomposableModel) -> DecomposableModel:
    """Its last stack, from which the score comes; the same in float64."""
    wider = subject.wider
    turned = None if wider is None else (lambda: select_decoder_layer_stack(wider()))
    return replace(subject, stack=subject.stacks[-1], wider=turned)


def require_softmax_attention_only(subject: DecomposableModel) -> frozenset[AttentionSite]:
    """The attention layers verified in the model; other token mixers have no map for relevance."""
    refuse_uncapturable_attention(subject.prepared.left_out)
    mixers, shapes = subject.prepared.mixers, subject.prepared.shapes
    if mixers:
        raise InputError(
            f"layer {mixers[0].layer} mixes tokens by a {mixers[0].kind} too, which relevance passes over: it would be "
            "told of a part of the model alone."
        )
    if any(site.is_differential_map for site in shapes):
        raise InputError(
            "differential attention has weights of both signs: relevance has no rule for them."
        )
    return frozenset(shapes)


def require_score_to_explain(request: RelevanceRequest, subject: DecomposableModel) -> None:
    """Refuse a model that lacks the number to be explained, before any text is run."""
    if request.target != STATE:
        body = subject.checkpoint.model_without_head
        short = subject.prepared.short.kwargs
        with torch.no_grad(), run_in_model_precision(body):
            output = subject.checkpoint.model(**short)
        select_score_to_explain(subject.checkpoint, request.target, output, torch.empty(0), 0)


def report_gradient_memory_estimate(
    request: RelevanceRequest, subject: DecomposableModel, tokens: int, heads: int, say: Say
) -> None:
    """Announce the memory that autograd needs until the backward pass: states, maps, scores and
    gradients of each layer."""
    body = subject.checkpoint.model_without_head
    size = next(body.parameters()).dtype.itemsize
    maps = MAPS_KEPT * len(request.verified_sites) * heads * tokens**2 * size
    states = len(subject.stacks) * len(subject.stack.calls) * estimate_run_memory(body, tokens, 0)
    what = f"relevance keeps the maps of {format_count(len(request.verified_sites), 'attention')} with their gradients"
    require_memory(maps + states, what, "cut the text with `tokens`")
    say(f"{what}: about {format_short_number((maps + states) / 1e6, 3)} MB")
