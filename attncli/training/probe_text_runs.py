"""The same texts, observed repeatedly between two steps of a training.

All slow work is done once: tokenizing, finding the blocks, verifying the capture. An observation is
then one forward pass.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attncli.analysis.heads.forward_passes.head_observer import (
    PassRequest,
    PassResult,
    ignore_progress_share,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import MetricSelection
from attncli.analysis.load_and_verify_model import HEADS, PreparedModel, Requirement, prepare_model
from attncli.declare.option_declarations import is_whole_number
from attncli.errors import UsageError, format_count
from attncli.forward_argument_types import Inputs, Kwargs
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.inputs_besides_token_ids import find_inputs_besides_token_ids
from attncli.models.inputs.model_input import WORDS, ModelInput, label_tokens_by_ids
from attncli.models.inputs.padding import remove_padding
from attncli.models.inputs.python_api_inputs import (
    bind_forward_arguments,
    convert_arrays_to_tensors,
    is_list_of_token_ids,
)
from attncli.models.inputs.requested_inputs import make_model_inputs
from attncli.models.inputs.text_inputs import TextEncoder, make_text_input
from attncli.models.inputs.tokenizing import EncodedText
from attncli.models.inputs.vocabulary_and_positions import find_max_positions
from attncli.models.loading.in_memory.eval_mode import switch_to_eval_mode_temporarily
from attncli.models.loading.in_memory.unwrap_models import UnwrappedModel
from attncli.models.loading.isolate_global_state import take_measurement_lock
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.precision import format_dtype
from attncli.models.quiet_libraries import silence_libraries
from attncli.records import JsonObject

LONGEST = 128
"""Default maximum of tokens in a probe: longer texts cost more than they show."""

Probe = (
    str
    | Iterable[str]
    | Iterable[int]
    | Iterable[Iterable[int]]
    | Tensor
    | Mapping[str, Any]
    | None
)
"""Texts, token ids, or a model's own keyword arguments; None is the text that ships with attn."""
PROBES = "texts, token ids, or a mapping of the forward's arguments, tensors among them"


@dataclass(frozen=True)
class ProbeRuns:
    """A model in training, and the texts on which it is observed."""

    unwrapped: UnwrappedModel
    subject: PreparedModel
    texts: tuple[ModelInput, ...]
    metrics: MetricSelection
    null: UniformAttentionControl

    def observe_probe_texts(self) -> list[PassResult]:
        """Observe the model now."""
        with take_measurement_lock(), switch_to_eval_mode_temporarily(self.unwrapped.model):
            return [self.run_probe_text(text.kwargs, text.name) for text in self.texts]

    def run_probe_text(self, kwargs: Kwargs, name: str) -> PassResult:
        """Run one forward pass in evaluation mode."""
        request = PassRequest(self.metrics.heads, self.metrics.states)
        body, stacks = self.subject.body, self.subject.stacks
        with silence_libraries():
            if self.subject.replaces_modules:
                body(**kwargs)
            return measure_forward_pass(
                body,
                stacks,
                kwargs,
                request,
                self.null,
                name,
                ignore_progress_share,
                proved=self.subject.shapes,
            )


def prepare_runs_on_probe_texts(
    trained: UnwrappedModel,
    probe: Probe,
    tokenizer: PreTrainedTokenizerBase | None,
    metrics: MetricSelection,
    tokens: int | None,
    by_default: bool = False,
) -> ProbeRuns:
    """Prepare the model: find its attention, and verify the capture on a short input, as every
    other question does.

    `by_default`: the metrics are the default, so those of states are left out where no blocks have
    states.
    """
    own = trained.transformers_model
    most = LONGEST if own is None else min(LONGEST, find_max_positions(own) or LONGEST)
    with take_measurement_lock():
        texts = read_probe_inputs(trained, probe, tokenizer, tokens or most)
        subject = verify_capture_on_probe_text(trained, texts[0], bool(metrics.states), by_default)
    if not subject.stacks:
        metrics = replace(metrics, states=())
    return ProbeRuns(trained, subject, tuple(texts), metrics, UniformAttentionControl())


def verify_capture_on_probe_text(
    trained: UnwrappedModel, text: ModelInput, with_states: bool, by_default: bool
) -> PreparedModel:
    """The model, verified: at rest, and every softmax of it; a module of another origin has states only where these are requested."""
    foreign = trained.transformers_model is None
    needs = Requirement.CAPTURE if foreign and not with_states else HEADS
    optional = foreign and by_default
    with switch_to_eval_mode_temporarily(trained.model):
        return prepare_model(
            cast(PreTrainedModel, trained.body),
            text,
            needs,
            left_out="refuse",
            without_blocks="go on" if optional else "refuse",
        )


def read_probe_inputs(
    trained: UnwrappedModel, probe: object, tokenizer: PreTrainedTokenizerBase | None, tokens: int
) -> list[ModelInput]:
    """The probe as the model reads it, on its device."""
    model = trained.transformers_model
    if isinstance(probe, Mapping):
        return [make_model_input_from_arguments(trained.model, probe)]
    if model is None:
        return read_custom_module_inputs(trained.model, probe)
    checkpoint = LoadedModel(model, {}, None, tokenizer=tokenizer)
    probe = convert_sequence_to_list(probe)
    texts = read_probe_texts(probe)
    if texts and tokenizer is None:
        raise UsageError("texts need a tokenizer: give `tokenizer`, or token ids as the probe.")
    with switch_to_eval_mode_temporarily(model):
        if probe is None or texts:
            return make_model_inputs(checkpoint, RequestedInput(texts=texts, tokens=tokens))
        reading = TextEncoder(
            checkpoint, find_inputs_besides_token_ids(checkpoint.model_without_head), 0
        )
    return [
        make_text_input(
            reading,
            f"probe {n}",
            "token ids",
            EncodedText(ids[:tokens], label_tokens_by_ids(ids[:tokens]), 0),
        )
        for n, ids in enumerate(read_probe_token_ids(probe), start=1)
    ]


def read_custom_module_inputs(module: nn.Module, probe: object) -> list[ModelInput]:
    """Inputs of a module that is not from transformers: its first argument, or a list of those."""
    if probe is None:
        raise UsageError(
            f"`probe` must be what the forward of {type(module).__name__} reads, which is no model of transformers: its "
            'first argument, or a mapping such as {"input_ids": ids}.'
        )
    every = probe if isinstance(probe, list) and not is_list_of_token_ids(probe) else [probe]
    device = next((each.device for each in module.parameters()), torch.device("cpu"))
    named = [
        bind_forward_arguments(module, convert_arrays_to_tensors(each, device), "probe")
        for each in every
    ]
    return [make_model_input_from_arguments(module, each) for each in named]


def convert_sequence_to_list(probe: object) -> Any:
    """Any library's sequence as a list; a single text as a list of one."""
    if isinstance(probe, str):
        return [probe]
    found = probe.tolist() if hasattr(probe, "tolist") else probe
    return list(found) if isinstance(found, Iterable) and not isinstance(found, bytes) else found


def read_probe_texts(probe: Any) -> tuple[str, ...]:
    """The texts of the probe; empty where it is something else."""
    is_texts = isinstance(probe, list) and all(isinstance(each, str) for each in probe)
    return tuple(map(str, probe)) if is_texts else ()


def read_probe_token_ids(probe: object) -> list[list[int]]:
    """Whole numbers of any library: one text, or a list of such for each."""
    every = probe if isinstance(probe, list) else []
    rows = [every] if every and all(map(is_whole_number, every)) else every
    lists = [
        list(row) if isinstance(row, Iterable) and not isinstance(row, str | bytes) else []
        for row in rows
    ]
    if not lists or not all(row and all(map(is_whole_number, row)) for row in lists):
        raise UsageError(f"`probe` must be {PROBES}, not {probe!r:.80}.")
    return [[int(each) for each in row] for row in lists]


def make_model_input_from_arguments(model: nn.Module, kwargs: Kwargs) -> ModelInput:
    """Arguments as they are, a batch of one; padding is no text."""
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    placed: Inputs = {
        name: convert_arrays_to_tensors(each, device) for name, each in kwargs.items()
    }
    tensors = {name: each.to(device) for name, each in placed.items() if isinstance(each, Tensor)}
    if not tensors:
        raise UsageError(f"`probe` must be {PROBES}, not {kwargs!r:.80}.")
    several = [name for name, each in tensors.items() if each.dim() and len(each) != 1]
    if several:
        raise UsageError(
            f"`probe` must hold a batch of one, and {several[0]} has {format_count(len(tensors[several[0]]), 'item')}."
        )
    placed = {**placed, **tensors}
    if isinstance(model, PreTrainedModel):
        placed = remove_padding(model, placed, "`probe`")
    main = placed.get(WORDS, next(iter(tensors.values())))
    return ModelInput("probe", "arguments", dict(placed), main.shape[1] if main.dim() > 1 else 1)


def describe_trained_model(trained: UnwrappedModel) -> JsonObject:
    """Identity of the model for the report; the weights are not hashed, which would cost more than
    an observation."""
    model = trained.model
    config = getattr(model, "config", None)
    first = next(model.parameters(), torch.empty(0))
    return {
        "kind": "live",
        "name": getattr(model, "name_or_path", "") or type(model).__name__,
        "model_type": getattr(config, "model_type", None),
        "class": type(model).__name__,
        "parameters": sum(each.numel() for each in model.parameters()),
        "dtype": format_dtype(first.dtype),
        "device": str(first.device),
    }


def find_nonfinite_parameter(model: nn.Module) -> str:
    """The first parameter that has lost its numbers, in words; empty where all are finite."""
    for name, parameter in model.named_parameters():
        own = getattr(
            parameter, "_local_tensor", parameter
        ).detach()  # of a parameter in parts, this process's
        bad = int((~torch.isfinite(own)).sum())
        if bad:
            return f"{name} holds {bad} of {own.numel()} numbers that are not finite"
    return ""
