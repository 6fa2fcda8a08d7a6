"""From SOURCE and the model options to a study of a trained model's paths."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from attncli.checkpoints.inputs.texts import ModelInput, inputs_of
from attncli.checkpoints.loading.load import Checkpoint, load
from attncli.checkpoints.loading.room_needed import room_to_run
from attncli.checkpoints.random.dummy_inputs import example_inputs
from attncli.checkpoints.streaming import prove
from attncli.checkpoints.structure.blocks import find_stacks
from attncli.cli.model_options import InputOptions, ModelOptions
from attncli.cli.models import PROBE_TOKENS
from attncli.cli.options import separated
from attncli.errors import InputError, UsageError, unknown_name
from attncli.limits import require_memory
from attncli.records import Report
from attncli.studies.model_runs import own_precision
from attncli.studies.path_choices import parse_path
from attncli.studies.path_maps import Maps, named_in_model, sampled_in_model
from attncli.studies.path_model_heads import model_heads
from attncli.studies.path_models import STEPS, TOLERANCES, Plan, model_paths


def model_study(
    source: str,
    metrics: Sequence[str],
    steps: Sequence[str] | None,
    loss: bool,
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int | None,
) -> Callable[..., Report]:
    """Everything is loaded and found out before the first text is read."""
    wanted = wanted_steps(steps)
    checkpoint, texts = opened(source, model, inputs, tokens, seed or 0)
    if loss:
        refuse_other_heads(checkpoint)
    with own_precision(checkpoint.body):
        stacks = find_stacks(checkpoint.body, example_inputs(checkpoint.body, PROBE_TOKENS))
    plan = Plan(stacks, wanted, metrics, loss)
    require_room(checkpoint, plan, texts)
    return partial(model_paths, checkpoint, texts, plan)


def single_study(
    source: str,
    path: Sequence[str] | None,
    sample: int | None,
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int | None,
) -> Callable[..., Report]:
    """Single paths; how many heads each layer has is seen on a short input."""
    checkpoint, texts = opened(source, model, inputs, tokens, seed or 0)
    body = checkpoint.body
    short = ModelInput("", "", example_inputs(body, PROBE_TOKENS), PROBE_TOKENS)
    with own_precision(body):
        prove(body, short.kwargs)
    heads = Maps(body, short).heads
    longest = max(text.tokens for text in texts)
    require_memory(
        room_to_run(body, longest, 0, max(heads)) + 8 * sum(heads) * longest**2,
        f"the attention maps of a text of {longest} tokens",
        "cut it with --tokens",
    )
    if sample is not None:
        return partial(sampled_in_model, checkpoint, texts, sample, seed or 0)
    named = [parse_path(text, heads, skip=True) for text in path or ()]
    return partial(named_in_model, checkpoint, texts, list(dict.fromkeys(named)))


def head_study(
    source: str, model: ModelOptions, inputs: InputOptions, tokens: int | None, seed: int | None
) -> Callable[..., Report]:
    """The share of every head; a backward pass keeps what every block has made."""
    checkpoint, texts = opened(source, model, inputs, tokens, seed or 0)
    with own_precision(checkpoint.body):
        stacks = find_stacks(checkpoint.body, example_inputs(checkpoint.body, PROBE_TOKENS))
    require_room(checkpoint, Plan(stacks, (), (), loss=False), texts)
    return partial(model_heads, checkpoint, stacks, texts)


def opened(
    source: str, model: ModelOptions, inputs: InputOptions, tokens: int | None, seed: int
) -> tuple[Checkpoint, Sequence[ModelInput]]:
    """The model and what it is run on."""
    checkpoint = loaded(source, model, seed)
    return checkpoint, inputs_of(checkpoint, inputs.to_read(tokens, seed))


def wanted_steps(given: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(separated(given or ["attention"])))
    for name in names:
        if name not in STEPS:
            raise unknown_name("kind of step", name, STEPS)
    return names


def loaded(source: str, model: ModelOptions, seed: int) -> Checkpoint:
    """In float32 where the file is in half precision and nothing is said: terms are differences of larger numbers."""
    options = model.to_load(seed)
    checkpoint = load(source, options)
    if checkpoint.model.dtype in TOLERANCES:
        return checkpoint
    if options.dtype is not None:
        raise UsageError(
            f"--dtype {options.dtype} would drown the terms in rounding: float32 or float64."
        )
    return load(source, replace(options, dtype="float32"))


def refuse_other_heads(checkpoint: Checkpoint) -> None:
    name = type(checkpoint.model).__name__
    if name not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        raise InputError(f"--loss needs a next-token model, and {name} is none: leave it out.")


def require_room(checkpoint: Checkpoint, plan: Plan, texts: Sequence[ModelInput]) -> None:
    """Every length is a stream of its own; with the loss each has its own logits too."""
    longest = max(text.tokens for text in texts)
    streams = 2 + len(plan.stacks[0].calls)
    needed = streams * room_to_run(checkpoint.body, longest, strip_memory=0, heads_at_once=1)
    if plan.loss:
        size = torch.finfo(checkpoint.model.dtype).bits // 8
        needed += (
            2 * streams * longest * size * checkpoint.model.config.get_text_config().vocab_size
        )
    require_memory(needed, f"a text of {longest} tokens", "cut it with --tokens")
