"""The same texts, looked at again and again between two steps of a training.

Everything that costs time is done once: texts are tokenized, blocks found and the capture is proved. A look is then
one forward pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attncli.analysis.heads.forward_passes.head_runs import Seen, Wanted, look
from attncli.analysis.heads.forward_passes.uniform_attention import UniformNull
from attncli.analysis.heads.metric_selection import Metrics
from attncli.analysis.heads.model_heads import HeadSubject
from attncli.capture import prove
from attncli.capture.other_mixers.uncapturable_attention import refuse_left_out
from attncli.capture.stacks.blocks import structure_of
from attncli.capture.stacks.foreign_modules import HeldModule
from attncli.declare.options import is_whole
from attncli.errors import UsageError, counted
from attncli.models.inputs.extra_inputs import WORDS, company
from attncli.models.inputs.padding import without_padding
from attncli.models.inputs.requested_input import WantedInput
from attncli.models.inputs.texts import ModelInput, Reading, inputs_of, words
from attncli.models.inputs.token_ranges import longest
from attncli.models.inputs.tokenizing import Encoded, shown
from attncli.models.inputs.user_inputs import in_torch, is_ids, keywords
from attncli.models.loading.body import body_of
from attncli.models.loading.in_memory.eval_mode import resting
from attncli.models.loading.in_memory.unwrap import Unwrapped
from attncli.models.loading.isolate_global_state import in_turn
from attncli.models.loading.load import Checkpoint
from attncli.models.loading.precision import dtype_name, own_precision
from attncli.models.quiet_libraries import quiet
from attncli.models.random.dummy_inputs import example_inputs

SHORT = 12
"""Tokens of the input on which the capture is proved."""
LONGEST = 128
"""Tokens of a probe's text, if no other length is asked for: longer ones cost more than they show."""

Probe = (
    str
    | Iterable[str]
    | Iterable[int]
    | Iterable[Iterable[int]]
    | Tensor
    | Mapping[str, Any]
    | None
)
"""What is looked at: texts, token ids, or a model's own keyword arguments; None is the text that ships with attn."""
PROBES = "texts, token ids, or a mapping of the forward's arguments, tensors among them"


@dataclass(frozen=True)
class ProbeRuns:
    """A model in training and the texts on which it is looked at."""

    trained: Unwrapped
    subject: HeadSubject
    texts: tuple[ModelInput, ...]
    metrics: Metrics
    null: UniformNull
    off_interface: bool
    """Whether some of its attention is not on transformers' attention interface."""
    settles: bool
    """Whether it takes other parts for short texts in its first pass (BigBird), which must be over before it is watched."""

    def look(self) -> list[Seen]:
        """What the model shows now."""
        with in_turn(), resting(self.trained.model):
            return [self.seen(text.kwargs, text.name) for text in self.texts]

    def seen(self, kwargs: Mapping[str, Any], name: str) -> Seen:
        """One forward pass of a model at rest."""
        wanted = Wanted(self.metrics.heads, self.metrics.states)
        body, stacks = self.subject.body, self.subject.stacks
        with quiet():
            if self.settles:
                body(**kwargs)
            return look(body, stacks, kwargs, wanted, self.null, name, unheard, proved=self.subject.shapes)  # fmt: skip


def unheard(share: float) -> None:
    """A look is too short for a bar."""


def probe_runs(
    trained: Unwrapped,
    probe: Probe,
    tokenizer: Any,
    metrics: Metrics,
    tokens: int | None,
    by_default: bool = False,
) -> ProbeRuns:
    """Prepare the model: find its attention, and verify the capture on a short input, as every other question does.

    `by_default`: nobody asked for these metrics, so those of states are left out where no blocks have states.
    """
    own = trained.of_transformers
    most = LONGEST if own is None else min(LONGEST, longest(own) or LONGEST)
    with in_turn():
        texts = texts_of(trained, probe, tokenizer, tokens or most)
        subject, off, settles = proved(trained, texts, bool(metrics.states), by_default)
    if not subject.stacks:
        metrics = replace(metrics, states=())
    return ProbeRuns(trained, subject, tuple(texts), metrics, UniformNull(), off, settles)


def proved(
    trained: Unwrapped, texts: Sequence[ModelInput], with_states: bool, by_default: bool
) -> tuple[HeadSubject, bool, bool]:
    """The model's blocks and attention, whether some is off the interface, and whether the model settles in a first pass.

    A module of the caller's own is proved on the first text itself.
    """
    own, body = trained.of_transformers, cast(PreTrainedModel, trained.body)
    with resting(trained.model), own_precision(body):
        short = texts[0].kwargs if own is None else example_inputs(body_of(own), SHORT)
        before = list(map(id, body.modules()))
        if isinstance(body, HeldModule):
            body.look(short)
        proof = prove(body, short)
        refuse_left_out(proof.left_out)
        follows = own is not None or with_states
        may_have_none = own is None and by_default
        stacks = structure_of(body, short, may_have_none).stacks if follows else ()
        subject = HeadSubject(body, stacks, proof.shapes)
        return subject, bool(proof.whole_maps), before != list(map(id, body.modules()))


def texts_of(trained: Unwrapped, probe: Any, tokenizer: Any, tokens: int) -> list[ModelInput]:
    """The probe as the model reads it, on its device."""
    model = trained.of_transformers
    if isinstance(probe, Mapping):
        return [given(trained.model, probe)]
    if model is None:
        return own_texts_of(trained.model, probe)
    checkpoint = Checkpoint(model, {}, None, tokenizer=tokenizer)
    probe = several(probe)
    texts = texts_in(probe)
    if texts and tokenizer is None:
        raise UsageError("texts need a tokenizer: give `tokenizer`, or token ids as the probe.")
    with resting(model):
        if probe is None or texts:
            return inputs_of(checkpoint, WantedInput(texts=texts, tokens=tokens))
        reading = Reading(checkpoint, company(checkpoint.body), 0)
    return [
        words(reading, f"probe {n}", "token ids", Encoded(ids[:tokens], shown(ids[:tokens]), 0))
        for n, ids in enumerate(ids_in(probe), start=1)
    ]


def own_texts_of(module: nn.Module, probe: Any) -> list[ModelInput]:
    """What a module that is none of transformers reads: its first argument, or a list of such, as `inputs` of a question."""
    if probe is None:
        raise UsageError(
            f"`probe` must be what the forward of {type(module).__name__} reads, which is no model of transformers: its "
            'first argument, or a mapping such as {"input_ids": ids}.'
        )
    every = probe if isinstance(probe, list) and not is_ids(probe) else [probe]
    device = next((each.device for each in module.parameters()), torch.device("cpu"))
    named = [keywords(module, in_torch(each, device), "probe") for each in every]
    return [given(module, each) for each in named]


def several(probe: Any) -> Any:
    """What can be gone through, of any library, as a list; a text as a list of one."""
    if isinstance(probe, str):
        return [probe]
    found = probe.tolist() if hasattr(probe, "tolist") else probe
    return list(found) if isinstance(found, Iterable) and not isinstance(found, bytes) else found


def texts_in(probe: Any) -> tuple[str, ...]:
    """Texts; none where it is something else."""
    is_texts = isinstance(probe, list) and all(isinstance(each, str) for each in probe)
    return tuple(map(str, probe)) if is_texts else ()


def ids_in(probe: Any) -> list[list[int]]:
    """Whole numbers of any library: one text, or a list of such for each."""
    every = probe if isinstance(probe, list) else []
    rows = [every] if every and all(map(is_whole, every)) else every
    lists = [
        list(row) if isinstance(row, Iterable) and not isinstance(row, str | bytes) else []
        for row in rows
    ]
    if not lists or not all(row and all(map(is_whole, row)) for row in lists):
        raise UsageError(f"`probe` must be {PROBES}, not {probe!r:.80}.")
    return [[int(each) for each in row] for row in lists]


def given(model: nn.Module, kwargs: Mapping[str, Any]) -> ModelInput:
    """Arguments as they are, a batch of one; padding is no text."""
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    placed: dict[str, Any] = {name: in_torch(each, device) for name, each in kwargs.items()}
    tensors = {name: each.to(device) for name, each in placed.items() if isinstance(each, Tensor)}
    if not tensors:
        raise UsageError(f"`probe` must be {PROBES}, not {kwargs!r:.80}.")
    several = [name for name, each in tensors.items() if each.dim() and len(each) != 1]
    if several:
        raise UsageError(f"`probe` must hold a batch of one, and {several[0]} has {counted(len(tensors[several[0]]), 'item')}.")  # fmt: skip
    placed |= tensors
    if isinstance(model, PreTrainedModel):
        placed = without_padding(model, placed, "`probe`")
    main = placed.get(WORDS, next(iter(tensors.values())))
    return ModelInput("probe", "arguments", placed, main.shape[1] if main.dim() > 1 else 1)


def identity_of(trained: Unwrapped) -> dict[str, Any]:
    """For the report; the weights are not hashed, which would cost more than a look."""
    model = trained.model
    config = getattr(model, "config", None)
    first = next(model.parameters(), torch.empty(0))
    return {
        "kind": "live",
        "name": getattr(model, "name_or_path", "") or type(model).__name__,
        "model_type": getattr(config, "model_type", None),
        "class": type(model).__name__,
        "parameters": sum(each.numel() for each in model.parameters()),
        "dtype": dtype_name(first.dtype),
        "device": str(first.device),
    }


def not_finite(model: nn.Module) -> str:
    """The first parameter that has lost its numbers, in words; empty where all are finite."""
    for name, parameter in model.named_parameters():
        own = getattr(
            parameter, "_local_tensor", parameter
        ).detach()  # of a parameter in parts, this process's
        bad = int((~torch.isfinite(own)).sum())
        if bad:
            return f"{name} holds {bad} of {own.numel()} numbers that are not finite"
    return ""
