"""From SOURCE and the model options to a study of a trained model's paths."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial

import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from attncli.api.opened.loaded_models import PROBE_TOKENS
from attncli.api.rehearsal import before_the_work
from attncli.errors import InputError, unknown_name
from attncli.limits import require_memory
from attncli.models.inputs.beside_words import WORDS
from attncli.models.inputs.texts import ModelInput, ahead, inputs_of
from attncli.models.loading.load import Checkpoint, load
from attncli.models.loading.placing import require_one_device
from attncli.models.loading.room_needed import room_to_run
from attncli.models.random.dummy_inputs import example_inputs
from attncli.models.sources import Source
from attncli.models.text_configs import text_config
from attncli.options.model_options import InputOptions, ModelOptions
from attncli.options.path_options import STEPS as STEPS_TOGETHER
from attncli.options.path_options import PathOptions
from attncli.records import Report
from attncli.studies.model_runs import own_precision
from attncli.studies.paths.path_choices import parse_path
from attncli.studies.paths.path_subject import PathSubject
from attncli.studies.paths.trained_models.model_paths import PathPlan, model_paths
from attncli.studies.paths.trained_models.path_maps import Maps
from attncli.studies.paths.trained_models.path_model_heads import OWN_METRICS as HEADS_METRICS
from attncli.studies.paths.trained_models.path_model_heads import model_heads
from attncli.studies.paths.trained_models.path_model_singles import METRICS as SINGLE_METRICS
from attncli.studies.paths.trained_models.path_model_singles import (
    STREAMS,
    named_in_model,
    sampled_in_model,
)
from attncli.studies.paths.trained_models.path_model_steps import METRICS as STEPS_METRICS
from attncli.studies.paths.trained_models.path_model_steps import model_steps
from attncli.watching import prove
from attncli.watching.own_failures import failures_of
from attncli.watching.stacks.blocks import find_stacks


def model_study(
    source: Source,
    asked: PathOptions,
    metrics: Sequence[str],
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Callable[..., Report]:
    """Everything is loaded and found out before the first text is read."""
    wanted = asked.kinds_of_step()
    subject, texts = opened(source, model, inputs, tokens, seed, asked.stack)
    if asked.loss:
        refuse_other_heads(subject.checkpoint, texts)
    require_room(subject, texts, 1 + len(subject.stack.calls), asked.loss)
    return partial(model_paths, subject, texts, PathPlan(wanted, metrics, asked.loss))


def single_study(
    source: Source,
    asked: PathOptions,
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Callable[..., Report]:
    """Single paths; how many heads each layer has is seen on a short input."""
    subject, texts = opened(source, model, inputs, tokens, seed, asked.stack)
    body = subject.checkpoint.body
    short = ModelInput("", "", example_inputs(body, PROBE_TOKENS), PROBE_TOKENS)
    with own_precision(body):
        prove(body, short.kwargs)
    heads = Maps(subject, short).heads
    longest = max(text.tokens for text in texts)
    needed = STREAMS * room_to_run(body, longest, 0) + room_to_run(body, longest, 0, max(heads))
    require_memory(
        needed + 8 * sum(heads) * longest**2,
        f"the attention maps of a text of {longest} tokens",
        "cut it with `tokens`",
    )
    if asked.sample is not None:
        return partial(sampled_in_model, subject, texts, heads, asked.sample, seed)
    named = [parse_path(text, heads, skip=True) for text in asked.path or ()]
    return partial(named_in_model, subject, texts, list(dict.fromkeys(named)))


def study_by(
    source: Source,
    asked: PathOptions,
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Callable[..., Report]:
    """The output by the heads that it passes, or by attentions and MLPs together: a stream for every pair of counts."""
    subject, texts = opened(source, model, inputs, tokens, seed, asked.stack)
    blocks, together = len(subject.stack.calls), asked.by == STEPS_TOGETHER
    require_room(subject, texts, streams=(1 + blocks) ** 2 if together else blocks)
    return partial(model_steps if together else model_heads, subject, texts)


def measured(asked: PathOptions) -> Iterable[str]:
    """The metrics of single paths, or of the output taken apart."""
    if asked.by is None:
        return SINGLE_METRICS
    return STEPS_METRICS if asked.by == STEPS_TOGETHER else HEADS_METRICS


def opened(
    source: Source,
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
    stack: str | None = None,
) -> tuple[PathSubject, Sequence[ModelInput]]:
    """The model, the stack of it that is asked about, and what it is run on."""
    model.refuse_tensor_parallel("source", "the paths of a stream")
    model.refuse_half()
    options = model.to_load(seed)
    wanted = inputs.to_read(tokens, seed)
    before_the_work()
    subject = subject_of(load(source, replace(options, half=False), ahead(wanted)), stack)
    single = subject.checkpoint.model.dtype == torch.float32
    drawn = options.allow_missing  # in another type other weights would be drawn
    if options.dtype is None and single and not drawn and options.device != "mps":
        wide = replace(options, dtype="float64")
        subject = replace(subject, wider=cache(lambda: subject_of(load(source, wide), stack)))
    return subject, inputs_of(subject.checkpoint, wanted)


def subject_of(checkpoint: Checkpoint, name: str | None) -> PathSubject:
    """The first stack, or the one that is named."""
    require_one_device(checkpoint.model, "following the paths of a stream")
    short = example_inputs(checkpoint.body, PROBE_TOKENS)
    with failures_of(checkpoint.body, {"a short input": short}), own_precision(checkpoint.body):
        stacks = find_stacks(checkpoint.body, short)
    named = {stack.name: stack for stack in stacks}
    if name is not None and name not in named:
        raise unknown_name("stack", name, named)
    return PathSubject(checkpoint, stacks, stacks[0] if name is None else named[name])


def refuse_other_heads(checkpoint: Checkpoint, texts: Sequence[ModelInput]) -> None:
    """The loss is of tokens that are there to be told."""
    name = type(checkpoint.model).__name__
    if name not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        raise InputError(f"`loss` needs a next-token model, and {name} is none: leave it out.")
    if any(WORDS not in text.kwargs for text in texts):
        raise InputError(
            f"`loss` is of the next token, and `inputs` holds no {WORDS}: leave it out."
        )


def require_room(
    subject: PathSubject, texts: Sequence[ModelInput], streams: int, loss: bool = False
) -> None:
    """For so many streams beside the full one; with the loss each has its own logits too."""
    checkpoint = subject.checkpoint
    longest = max(text.tokens for text in texts)
    streams += 1
    needed = streams * room_to_run(checkpoint.body, longest, strip_memory=0, heads_at_once=1)
    if loss:
        size = torch.finfo(checkpoint.model.dtype).bits // 8
        needed += 2 * streams * longest * size * text_config(checkpoint.model.config).vocab_size
    require_memory(needed, f"a text of {longest} tokens", "cut it with `tokens`")
