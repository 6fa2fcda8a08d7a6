"""From the options of `attn attribute` to its report."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from attncli.analysis import Say
from attncli.analysis.paths.path_subject import PathSubject
from attncli.analysis.paths.prepare import opened
from attncli.analysis.prepare import PROBE_TOKENS
from attncli.capture import Site, prove
from attncli.capture.other_mixers.token_mixers import mixers_of
from attncli.capture.other_mixers.uncapturable_attention import refuse_left_out
from attncli.commands.attribute.attribution import attribution
from attncli.commands.attribute.relevance import RelevanceAsked
from attncli.commands.attribute.report import METRICS, RELEVANCES
from attncli.errors import InputError, counted
from attncli.gates import refuse_unmeasured
from attncli.limits import require_memory
from attncli.models.loading.memory_estimate import most_heads, room_to_run
from attncli.models.loading.precision import own_precision
from attncli.models.random.dummy_inputs import example_inputs
from attncli.options.model import InputOptions, ModelOptions
from attncli.python.question import How
from attncli.records import Report
from attncli.sources import Source

MAPS_KEPT = 5
"""Scores, scores with their mask, softmax, what weighs the values, and the gradient."""
STREAMS = 3
"""The state itself, what comes from the tokens, what comes from constants."""


def attribution_study(
    source: Source,
    token: str,
    relevance: str | None,
    top: int | None,
    how: How,
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Callable[..., Report]:
    """Everything is loaded and verified, and the memory that it takes is there, before the first text is run."""
    measured = METRICS if relevance is None else {**METRICS, **RELEVANCES}
    refuse_unmeasured(how.conditions, measured)
    subject, texts = opened(source, model, inputs, tokens, seed)
    body = subject.checkpoint.body
    longest = max(text.tokens for text in texts)
    heads = most_heads(body)
    needed = STREAMS * room_to_run(body, longest, 0) + room_to_run(body, longest, 0, heads)
    require_memory(needed, f"a text of {longest} tokens", "cut it with `tokens`")
    if relevance is None:
        return partial(attribution, subject, texts, token, top)
    if body.config.is_encoder_decoder:
        subject = of_the_decoder(subject)
    asked = RelevanceAsked(relevance, attentions(subject))
    announce(asked, subject, longest, heads, how.say)
    return partial(attribution, subject, texts, token, top, asked=asked)


def of_the_decoder(subject: PathSubject) -> PathSubject:
    """Its last stack, from which the score comes; the same in float64."""
    wider = subject.wider
    turned = None if wider is None else (lambda: of_the_decoder(wider()))
    return replace(subject, stack=subject.stacks[-1], wider=turned)


def attentions(subject: PathSubject) -> frozenset[Site]:
    """Those that the model is proved to have; whatever mixes tokens beside them has no map to be relevant by."""
    body = subject.checkpoint.body
    short = example_inputs(body, PROBE_TOKENS)
    with own_precision(body):
        proof = prove(body, short)
        shapes = proof.shapes
        refuse_left_out(proof.left_out)
        mixers = mixers_of(body, subject.stacks, short, shapes)
    if mixers:
        raise InputError(
            f"layer {mixers[0].layer} mixes tokens by a {mixers[0].kind} too, which relevance passes over: it would be "
            "told of a part of the model alone."
        )
    if any(site.is_difference for site in shapes):
        raise InputError(
            "differential attention has weights of both signs: relevance has no rule for them."
        )
    return frozenset(shapes)


def announce(
    asked: RelevanceAsked, subject: PathSubject, tokens: int, heads: int, say: Say
) -> None:
    """What autograd keeps until the way back: of each layer its states and its maps, their scores and gradients."""
    body = subject.checkpoint.body
    size = next(body.parameters()).dtype.itemsize
    maps = MAPS_KEPT * len(asked.proved) * heads * tokens**2 * size
    states = len(subject.stacks) * len(subject.stack.calls) * room_to_run(body, tokens, 0)
    what = f"relevance keeps the maps of {counted(len(asked.proved), 'attention')} with their gradients"
    require_memory(maps + states, what, "cut the text with `tokens`")
    say(f"{what}: about {(maps + states) / 1e6:.3g} MB")
